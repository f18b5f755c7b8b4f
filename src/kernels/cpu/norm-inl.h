// Row normalisations and elementwise steps.
#include <hwy/highway.h>

#include <cmath>
#include <cstdint>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/ops/norm.h"

#if defined(TANDEM_KERNELS_CPU_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_NORM_INL_H_
#undef TANDEM_KERNELS_CPU_NORM_INL_H_
#else
#define TANDEM_KERNELS_CPU_NORM_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

// 1 / sqrt(mean(x^2) + eps)
HWY_INLINE float inverse_rms(const float* x, std::int64_t size, float eps) {
  return 1.0f / std::sqrt(sum_of_squares(x, size) / static_cast<float>(size) + eps);
}

// y = x * scale * weight; T is float or BF16.
template <class T>
HWY_INLINE void scale_row(const float* x, const float* weight, float scale, std::int64_t size,
                          T* y) {
  const Floats factor = hn::Set(FloatTag(), scale);
  map(
      size, y, [factor](Floats v, Floats w) HWY_ATTR { return hn::Mul(hn::Mul(v, factor), w); }, x,
      weight);
}

// tanh(x) as numerator / denominator, so that factors can share one division. Beyond 9.1 tanh is 1
// to fp32, and both stay below 1e9.
struct Ratio {
  Floats numerator;
  Floats denominator;
};

HWY_INLINE Ratio tanh_ratio(Floats x) {
  const FloatTag d;
  const Floats two = hn::Set(d, 2.0f);
  const Floats limit = hn::Set(d, 9.1f);
  const Floats size = hn::IfThenElse(hn::Gt(hn::Abs(x), limit), limit, hn::Abs(x));
  const Floats grown = hn::Expm1(d, hn::Mul(size, two));
  return {hn::CopySign(grown, x), hn::Add(grown, two)};
}

// gate_beta tanh(gate/gate_beta) sigmoid(gate) * up_beta tanh(up/up_beta)
class SituGlu {
 public:
  explicit HWY_INLINE SituGlu(const ActivationSpec& spec)
      : gate_factor_(hn::Set(FloatTag(), 1.0f / spec.gate_beta)),
        up_factor_(hn::Set(FloatTag(), 1.0f / spec.up_beta)),
        bound_(hn::Set(FloatTag(), spec.gate_beta * spec.up_beta)) {}

  HWY_INLINE Floats operator()(Floats gate, Floats up) const {
    const Ratio a = tanh_ratio(hn::Mul(gate, gate_factor_));
    const Ratio b = tanh_ratio(hn::Mul(up, up_factor_));
    const Floats both =
        hn::Div(hn::Mul(a.numerator, b.numerator), hn::Mul(a.denominator, b.denominator));
    return hn::Mul(hn::Mul(both, bound_), sigmoid(gate));
  }

 private:
  Floats gate_factor_, up_factor_, bound_;
};

// y = activation(gate, up); y may be gate.
HWY_INLINE void activate_row(const ActivationSpec& spec, const float* gate, const float* up,
                             std::int64_t size, float* y) {
  if (spec.kind == GatedActivation::kSituGlu) return map(size, y, SituGlu(spec), gate, up);
  map(
      size, y, [](Floats g, Floats u) HWY_ATTR { return hn::Mul(silu(g), u); }, gate, up);
}

// body(row) for every row; `ns_per_element` steers the grain.
template <class Body>
HWY_INLINE void for_rows(ThreadTeam& team, std::int64_t rows, std::int64_t columns,
                         double ns_per_element, const Body& body) {
  parallel(team, rows, grain_for(static_cast<double>(columns) * ns_per_element),
           [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
             for (std::int64_t t = begin; t < end; ++t) body(t);
           });
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
