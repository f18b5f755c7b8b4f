#include "kernels/ref/operators.h"
#include "kernels/ref/plain.h"

namespace tandem::reference {

void rms_norm(const RmsNormArgs& args, ThreadTeam&) noexcept {
  for (std::int64_t t = 0; t < args.x.rows; ++t) {
    const float* x = args.x.row(t);
    float* y = args.y.row(t);
    const double scale = inverse_rms(x, args.x.columns, args.eps);
    for (std::int64_t i = 0; i < args.x.columns; ++i) {
      y[i] = static_cast<float>(x[i] * scale * args.weight[i]);
    }
  }
}

void gated_rms_norm(const GatedRmsNormArgs& args, ThreadTeam&) noexcept {
  const std::int64_t d = args.x.columns / args.heads;
  for (std::int64_t t = 0; t < args.x.rows; ++t) {
    for (std::int64_t h = 0; h < args.heads; ++h) {
      const float* x = args.x.row(t) + h * d;
      const float* gate = args.gate.row(t) + h * d;
      float* y = args.y.row(t) + h * d;
      const double scale = inverse_rms(x, d, args.eps);
      for (std::int64_t i = 0; i < d; ++i) {
        y[i] = static_cast<float>(x[i] * scale * args.weight[i] * sigmoid(gate[i]));
      }
    }
  }
}

void sigmoid_gate(const SigmoidGateArgs& args, ThreadTeam&) noexcept {
  for (std::int64_t t = 0; t < args.x.rows; ++t) {
    for (std::int64_t i = 0; i < args.x.columns; ++i) {
      args.y.row(t)[i] = static_cast<float>(args.x.row(t)[i] * sigmoid(args.gate.row(t)[i]));
    }
  }
}

void add(const AddArgs& args, ThreadTeam&) noexcept {
  for (std::int64_t t = 0; t < args.a.rows; ++t) {
    for (std::int64_t i = 0; i < args.a.columns; ++i) {
      args.y.row(t)[i] = args.a.row(t)[i] + args.b.row(t)[i];
    }
  }
}

void gated_activation(const GatedActivationArgs& args, ThreadTeam&) noexcept {
  for (std::int64_t t = 0; t < args.gate.rows; ++t) {
    for (std::int64_t i = 0; i < args.gate.columns; ++i) {
      const double y = activate(args.activation, args.gate.row(t)[i], args.up.row(t)[i]);
      args.y.row(t)[i] = static_cast<float>(y);
    }
  }
}

}  // namespace tandem::reference
