// The parts of KDA around the recurrence: short convolution and gates.
#include <cmath>

#include "train/ops/kda.h"

namespace tandem::train {
namespace {

// The convolution before SiLU at row `r` of a sequence.
template <typename T>
double convolve(ConstRows<T> x, const float* weight, std::int64_t width,
                const PackedSequence& sequence, std::int64_t r, std::int64_t channel) {
  double sum = 0;
  for (std::int64_t j = 0; j < width; ++j) {
    const std::int64_t from = r - (width - 1) + j;
    if (from < 0) continue;
    sum += static_cast<double>(weight[j * x.columns + channel]) *
           x.row(sequence.first_row + from)[channel];
  }
  return sum;
}

double softplus(double u) { return u > 20 ? u : std::log1p(std::exp(u)); }

}  // namespace

template <typename T>
void short_conv(ConstRows<T> x, const float* weight, std::int64_t width,
                std::span<const PackedSequence> sequences, Rows<T> y) {
  for (const PackedSequence& sequence : sequences) {
    for (std::int64_t r = 0; r < sequence.rows; ++r) {
      for (std::int64_t c = 0; c < x.columns; ++c) {
        const double z = convolve(x, weight, width, sequence, r, c);
        y.row(sequence.first_row + r)[c] = static_cast<T>(z * sigmoid(z));
      }
    }
  }
}

template <typename T>
void short_conv_backward(ConstRows<T> x, const float* weight, std::int64_t width,
                         std::span<const PackedSequence> sequences, ConstRows<T> dy, Rows<T> dx,
                         T* dweight, ThreadTeam& team) {
  // By channel: a channel's gradients touch no other.
  team.parallel_for(x.columns, 16, [&](std::int64_t begin, std::int64_t end) {
    for (const PackedSequence& sequence : sequences) {
      for (std::int64_t r = 0; r < sequence.rows; ++r) {
        const std::int64_t t = sequence.first_row + r;
        for (std::int64_t c = begin; c < end; ++c) {
          const double z = convolve(x, weight, width, sequence, r, c);
          const double s = sigmoid(z);
          const double dz = dy.row(t)[c] * s * (1 + z * (1 - s));
          for (std::int64_t j = 0; j < width; ++j) {
            const std::int64_t from = r - (width - 1) + j;
            if (from < 0) continue;
            const std::int64_t row = sequence.first_row + from;
            dx.row(row)[c] += static_cast<T>(dz * weight[j * x.columns + c]);
            if (dweight != nullptr) {
              dweight[j * x.columns + c] += static_cast<T>(dz * x.row(row)[c]);
            }
          }
        }
      }
    }
  });
}

template <typename T>
void kda_gates(const KdaGateWeights& weights, ConstRows<T> decay_logits, ConstRows<T> beta_logits,
               Rows<T> decay, Rows<T> beta) {
  const std::int64_t d = decay.columns / weights.heads;
  for (std::int64_t t = 0; t < decay.rows; ++t) {
    for (std::int64_t i = 0; i < decay.columns; ++i) {
      const double rate = weights.head_rate[i / d];
      const double u = static_cast<double>(decay_logits.row(t)[i]) + weights.dt_bias[i];
      decay.row(t)[i] = static_cast<T>(
          weights.lower_bound ? *weights.lower_bound * sigmoid(rate * u) : -rate * softplus(u));
    }
    for (std::int64_t h = 0; h < weights.heads; ++h) {
      beta.row(t)[h] = static_cast<T>(sigmoid<double>(beta_logits.row(t)[h]));
    }
  }
}

template <typename T>
void kda_gates_backward(const KdaGateWeights& weights, ConstRows<T> decay_logits,
                        ConstRows<T> beta_logits, ConstRows<T> ddecay, ConstRows<T> dbeta,
                        Rows<T> ddecay_logits, Rows<T> dbeta_logits,
                        const KdaGateGradients<T>& gradients) {
  const std::int64_t d = ddecay.columns / weights.heads;
  for (std::int64_t t = 0; t < ddecay.rows; ++t) {
    for (std::int64_t i = 0; i < ddecay.columns; ++i) {
      const double rate = weights.head_rate[i / d];
      const double u = static_cast<double>(decay_logits.row(t)[i]) + weights.dt_bias[i];
      const double dg = ddecay.row(t)[i];
      double du = 0;         // gradient of u
      double dlog_rate = 0;  // of log(rate)
      if (weights.lower_bound) {
        const double s = sigmoid(rate * u);
        const double dx = dg * *weights.lower_bound * s * (1 - s);
        du = dx * rate;
        dlog_rate = dx * rate * u;
      } else {
        du = -dg * rate * sigmoid(u);
        dlog_rate = -dg * rate * softplus(u);
      }
      ddecay_logits.row(t)[i] += static_cast<T>(du);
      if (gradients.dt_bias != nullptr) gradients.dt_bias[i] += static_cast<T>(du);
      if (gradients.a_log != nullptr) gradients.a_log[i / d] += static_cast<T>(dlog_rate);
    }
    for (std::int64_t h = 0; h < weights.heads; ++h) {
      const double b = sigmoid<double>(beta_logits.row(t)[h]);
      dbeta_logits.row(t)[h] += static_cast<T>(dbeta.row(t)[h] * b * (1 - b));
    }
  }
}

#define INSTANTIATE(T)                                                                          \
  template void short_conv(ConstRows<T>, const float*, std::int64_t,                            \
                           std::span<const PackedSequence>, Rows<T>);                           \
  template void short_conv_backward(ConstRows<T>, const float*, std::int64_t,                   \
                                    std::span<const PackedSequence>, ConstRows<T>, Rows<T>, T*, \
                                    ThreadTeam&);                                               \
  template void kda_gates(const KdaGateWeights&, ConstRows<T>, ConstRows<T>, Rows<T>, Rows<T>); \
  template void kda_gates_backward(const KdaGateWeights&, ConstRows<T>, ConstRows<T>,           \
                                   ConstRows<T>, ConstRows<T>, Rows<T>, Rows<T>,                \
                                   const KdaGateGradients<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
