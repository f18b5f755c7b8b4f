#include "train/ops/norm.h"

#include <cmath>
#include <vector>

namespace tandem::train {
namespace {

constexpr std::int64_t kRowGrain = 8;

// 1 / sqrt(mean(x^2) + eps)
template <typename T>
double inverse_rms(const T* x, std::int64_t size, float eps) {
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += static_cast<double>(x[i]) * x[i];
  return 1.0 / std::sqrt(sum / static_cast<double>(size) + eps);
}

// dx += rho (p - xh mean(p xh)) for xh = x rho, where p(i) is the gradient at xh.
template <typename T, typename Gradient>
void add_norm_gradient(const T* x, double rho, std::int64_t size, const Gradient& p, T* dx) {
  double mean = 0;
  for (std::int64_t i = 0; i < size; ++i) mean += p(i) * x[i] * rho;
  mean /= static_cast<double>(size);
  for (std::int64_t i = 0; i < size; ++i) {
    dx[i] += static_cast<T>(rho * (p(i) - x[i] * rho * mean));
  }
}

}  // namespace

template <typename T>
void rms_norm(ConstRows<T> x, const float* weight, float eps, Rows<T> y) {
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const double rho = inverse_rms(x.row(t), x.columns, eps);
    for (std::int64_t i = 0; i < x.columns; ++i) {
      y.row(t)[i] = static_cast<T>(x.row(t)[i] * rho * weight[i]);
    }
  }
}

template <typename T>
void rms_norm_backward(ConstRows<T> x, const float* weight, float eps, ConstRows<T> dy, Rows<T> dx,
                       T* dweight, ThreadTeam& team) {
  team.parallel_for(x.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const T* dy_row = dy.row(t);
      const auto p = [&](std::int64_t i) { return static_cast<double>(dy_row[i]) * weight[i]; };
      add_norm_gradient(x.row(t), inverse_rms(x.row(t), x.columns, eps), x.columns, p, dx.row(t));
    }
  });
  if (dweight == nullptr) return;
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const double rho = inverse_rms(x.row(t), x.columns, eps);
    for (std::int64_t i = 0; i < x.columns; ++i) {
      dweight[i] += static_cast<T>(dy.row(t)[i] * x.row(t)[i] * rho);
    }
  }
}

template <typename T>
void gated_rms_norm(ConstRows<T> x, ConstRows<T> gate, const float* weight, std::int64_t heads,
                    float eps, Rows<T> y) {
  const std::int64_t d = x.columns / heads;
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const T* row = x.row(t) + h * d;
      const double rho = inverse_rms(row, d, eps);
      for (std::int64_t i = 0; i < d; ++i) {
        const double open = sigmoid<double>(gate.row(t)[h * d + i]);
        y.row(t)[h * d + i] = static_cast<T>(row[i] * rho * weight[i] * open);
      }
    }
  }
}

template <typename T>
void gated_rms_norm_backward(ConstRows<T> x, ConstRows<T> gate, const float* weight,
                             std::int64_t heads, float eps, ConstRows<T> dy, Rows<T> dx,
                             Rows<T> dgate, T* dweight, ThreadTeam& team) {
  const std::int64_t d = x.columns / heads;
  team.parallel_for(x.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> open(static_cast<std::size_t>(d));
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t at = 0; at < x.columns; at += d) {
        const T* row = x.row(t) + at;
        const T* dy_row = dy.row(t) + at;
        const T* gate_row = gate.row(t) + at;
        for (std::int64_t i = 0; i < d; ++i) open[i] = sigmoid(gate_row[i]);
        const double rho = inverse_rms(row, d, eps);
        const auto p = [&](std::int64_t i) {
          return static_cast<double>(dy_row[i]) * weight[i] * open[i];
        };
        add_norm_gradient(row, rho, d, p, dx.row(t) + at);
        for (std::int64_t i = 0; i < d; ++i) {
          dgate.row(t)[at + i] +=
              static_cast<T>(dy_row[i] * (row[i] * rho) * weight[i] * open[i] * (1 - open[i]));
        }
      }
    }
  });
  if (dweight == nullptr) return;
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t at = 0; at < x.columns; at += d) {
      const double rho = inverse_rms(x.row(t) + at, d, eps);
      for (std::int64_t i = 0; i < d; ++i) {
        const double open = sigmoid<double>(gate.row(t)[at + i]);
        dweight[i] += static_cast<T>(dy.row(t)[at + i] * (x.row(t)[at + i] * rho) * open);
      }
    }
  }
}

template <typename T>
void sigmoid_gate(ConstRows<T> x, ConstRows<T> gate, Rows<T> y) {
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t i = 0; i < x.columns; ++i) {
      y.row(t)[i] = static_cast<T>(x.row(t)[i] * sigmoid<double>(gate.row(t)[i]));
    }
  }
}

template <typename T>
void sigmoid_gate_backward(ConstRows<T> x, ConstRows<T> gate, ConstRows<T> dy, Rows<T> dx,
                           Rows<T> dgate, ThreadTeam& team) {
  team.parallel_for(x.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t i = 0; i < x.columns; ++i) {
        const T open = sigmoid(gate.row(t)[i]);
        dx.row(t)[i] += dy.row(t)[i] * open;
        dgate.row(t)[i] += dy.row(t)[i] * x.row(t)[i] * open * (1 - open);
      }
    }
  });
}

namespace {

// activation(gate, up) of one element with its two derivatives.
template <typename T>
struct ActivationPoint {
  T value, by_gate, by_up;
};

// Half the time of std::tanhf; its error is that of fp32 around 1, not around 0, which a gradient
// that adds to others can bear.
float fast_tanh(float x) { return 1 - 2 / (1 + std::exp(2 * x)); }
double fast_tanh(double x) { return std::tanh(x); }

template <typename T>
ActivationPoint<T> activation_point(const ActivationSpec& spec, T gate, T up) {
  const T s = sigmoid(gate);
  if (spec.kind == GatedActivation::kSwiGlu) {
    return {gate * s * up, up * s * (1 + gate * (1 - s)), gate * s};
  }
  const T b = static_cast<T>(spec.gate_beta);
  const T c = static_cast<T>(spec.up_beta);
  const T tg = fast_tanh(gate / b);
  const T tl = fast_tanh(up / c);
  return {b * tg * s * (c * tl), c * tl * ((1 - tg * tg) * s + b * tg * s * (1 - s)),
          b * tg * s * (1 - tl * tl)};
}

}  // namespace

template <typename T>
void gated_activation(const ActivationSpec& spec, ConstRows<T> gate, ConstRows<T> up, Rows<T> y) {
  for (std::int64_t t = 0; t < gate.rows; ++t) {
    for (std::int64_t i = 0; i < gate.columns; ++i) {
      y.row(t)[i] = activation_point(spec, gate.row(t)[i], up.row(t)[i]).value;
    }
  }
}

template <typename T>
void gated_activation_backward(const ActivationSpec& spec, ConstRows<T> gate, ConstRows<T> up,
                               ConstRows<T> dy, Rows<T> dgate, Rows<T> dup, ThreadTeam& team) {
  team.parallel_for(gate.rows, kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t i = 0; i < gate.columns; ++i) {
        const auto point = activation_point(spec, gate.row(t)[i], up.row(t)[i]);
        dgate.row(t)[i] += dy.row(t)[i] * point.by_gate;
        dup.row(t)[i] += dy.row(t)[i] * point.by_up;
      }
    }
  });
}

#define INSTANTIATE(T)                                                                            \
  template void rms_norm(ConstRows<T>, const float*, float, Rows<T>);                             \
  template void rms_norm_backward(ConstRows<T>, const float*, float, ConstRows<T>, Rows<T>, T*,   \
                                  ThreadTeam&);                                                   \
  template void gated_rms_norm(ConstRows<T>, ConstRows<T>, const float*, std::int64_t, float,     \
                               Rows<T>);                                                          \
  template void gated_rms_norm_backward(ConstRows<T>, ConstRows<T>, const float*, std::int64_t,   \
                                        float, ConstRows<T>, Rows<T>, Rows<T>, T*, ThreadTeam&);  \
  template void sigmoid_gate(ConstRows<T>, ConstRows<T>, Rows<T>);                                \
  template void sigmoid_gate_backward(ConstRows<T>, ConstRows<T>, ConstRows<T>, Rows<T>, Rows<T>, \
                                      ThreadTeam&);                                               \
  template void gated_activation(const ActivationSpec&, ConstRows<T>, ConstRows<T>, Rows<T>);     \
  template void gated_activation_backward(const ActivationSpec&, ConstRows<T>, ConstRows<T>,      \
                                          ConstRows<T>, Rows<T>, Rows<T>, ThreadTeam&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
