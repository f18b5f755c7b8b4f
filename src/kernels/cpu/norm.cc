// The operators that walk over rows, each row on its own.
#include "kernels/cpu/operators.h"
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/norm-inl.h"
#include "kernels/cpu/residual_mix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

void rms_norm(const RmsNormArgs& args, ThreadTeam& team) {
  const std::int64_t width = args.x.columns;
  for_rows(team, args.x.rows, width, kNsPerElement, [&](std::int64_t t) HWY_ATTR {
    const float* x = args.x.row(t);
    scale_row(x, args.weight, inverse_rms(x, width, args.eps), width, args.y.row(t));
  });
}

void gated_rms_norm(const GatedRmsNormArgs& args, ThreadTeam& team) {
  const std::int64_t width = args.x.columns / args.heads;
  for_rows(team, args.x.rows, args.x.columns, kNsPerTranscendental, [&](std::int64_t t) HWY_ATTR {
    for (std::int64_t first = 0; first < args.x.columns; first += width) {
      const float* x = args.x.row(t) + first;
      const Floats scale = hn::Set(FloatTag(), inverse_rms(x, width, args.eps));
      const auto gated = [scale](Floats v, Floats weight, Floats gate) HWY_ATTR {
        return hn::Mul(hn::Mul(hn::Mul(v, scale), weight), sigmoid(gate));
      };
      map(width, args.y.row(t) + first, gated, x, args.weight, args.gate.row(t) + first);
    }
  });
}

void sigmoid_gate(const SigmoidGateArgs& args, ThreadTeam& team) {
  for_rows(team, args.x.rows, args.x.columns, kNsPerTranscendental, [&](std::int64_t t) HWY_ATTR {
    map(
        args.x.columns, args.y.row(t),
        [](Floats x, Floats gate) HWY_ATTR { return hn::Mul(x, sigmoid(gate)); }, args.x.row(t),
        args.gate.row(t));
  });
}

void add(const AddArgs& args, ThreadTeam& team) {
  for_rows(team, args.a.rows, args.a.columns, kNsPerElement, [&](std::int64_t t) HWY_ATTR {
    map(
        args.a.columns, args.y.row(t), [](Floats a, Floats b) HWY_ATTR { return hn::Add(a, b); },
        args.a.row(t), args.b.row(t));
  });
}

void gated_activation(const GatedActivationArgs& args, ThreadTeam& team) {
  for_rows(team, args.gate.rows, args.gate.columns, 2 * kNsPerTranscendental,
           [&](std::int64_t t) HWY_ATTR {
             activate_row(args.activation, args.gate.row(t), args.up.row(t), args.gate.columns,
                          args.y.row(t));
           });
}

void residual_mix(const ResidualMixArgs& args, ThreadTeam& team) {
  const double ns_per_element = kNsPerElement * static_cast<double>(args.bank_rows + 1);
  for_rows(team, args.stream.rows, args.stream.columns, ns_per_element,
           [&](std::int64_t t) HWY_ATTR { mix_row(args, t); });
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu {

HWY_EXPORT(rms_norm);
HWY_EXPORT(gated_rms_norm);
HWY_EXPORT(sigmoid_gate);
HWY_EXPORT(add);
HWY_EXPORT(gated_activation);
HWY_EXPORT(residual_mix);

void rms_norm(const RmsNormArgs& args, ThreadTeam& team) noexcept {
  HWY_DYNAMIC_DISPATCH(rms_norm)(args, team);
}

void gated_rms_norm(const GatedRmsNormArgs& args, ThreadTeam& team) noexcept {
  HWY_DYNAMIC_DISPATCH(gated_rms_norm)(args, team);
}

void sigmoid_gate(const SigmoidGateArgs& args, ThreadTeam& team) noexcept {
  HWY_DYNAMIC_DISPATCH(sigmoid_gate)(args, team);
}

void add(const AddArgs& args, ThreadTeam& team) noexcept { HWY_DYNAMIC_DISPATCH(add)(args, team); }

void gated_activation(const GatedActivationArgs& args, ThreadTeam& team) noexcept {
  HWY_DYNAMIC_DISPATCH(gated_activation)(args, team);
}

void residual_mix(const ResidualMixArgs& args, ThreadTeam& team) noexcept {
  HWY_DYNAMIC_DISPATCH(residual_mix)(args, team);
}

}  // namespace tandem::cpu
#endif  // HWY_ONCE
