// Vector helpers that every kernel shares: loads with tails, sums in one fixed order, exp and
// friends.
//
// Tails run through the same vector code as full vectors, on zero-padded copies: an element's value
// does not depend on where in a row it stands, and nothing past an array's end is read.
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

// Math functions need the guard pattern of per-target headers, see below.
#include <hwy/contrib/math/math-inl.h>

#if defined(TANDEM_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_SIMD_INL_H_
#undef TANDEM_KERNELS_CPU_SIMD_INL_H_
#else
#define TANDEM_KERNELS_CPU_SIMD_INL_H_
#endif

// Tiles of accumulators must become registers; -O2 alone keeps small arrays in memory.
#undef TANDEM_UNROLL
#if defined(__clang__)
#define TANDEM_UNROLL _Pragma("unroll")
#else
#define TANDEM_UNROLL _Pragma("GCC unroll 32")
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;

inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(FloatTag()));

// ---- loads and stores

HWY_INLINE Floats load(const float* p) { return hn::LoadU(FloatTag(), p); }

// bf16 is the upper half of an fp32.
HWY_INLINE Floats load(const BF16* p) {
  const FloatTag d;
  const hn::Rebind<std::uint16_t, FloatTag> d16;
  const hn::RebindToUnsigned<FloatTag> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

// The first `count` < kLanes elements, zeros behind them. Out of line, as there are many tails and
// none is hot.
template <class T>
HWY_NOINLINE Floats load_tail(const T* p, std::int64_t count) {
  HWY_ALIGN T buffer[kLanes] = {};
  std::memcpy(buffer, p, static_cast<std::size_t>(count) * sizeof(T));
  return load(buffer);
}

template <class T>
HWY_INLINE Floats load_up_to(const T* p, std::int64_t count) {
  return HWY_LIKELY(count >= kLanes) ? load(p) : load_tail(p, count);
}

HWY_INLINE void store(Floats v, float* p) { hn::StoreU(v, FloatTag(), p); }

// Round to nearest, ties to even, as to_bf16 does; NaN stays NaN.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<FloatTag>> bf16_bits(Floats v) {
  const hn::RebindToUnsigned<FloatTag> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fffu)));
  const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000u));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(v));
  return hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
}

HWY_INLINE Floats round_to_bf16(Floats v) {
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(bf16_bits(v)));
}

HWY_INLINE void store(Floats v, BF16* p) {
  const hn::Rebind<std::uint16_t, FloatTag> d16;
  const hn::RebindToSigned<FloatTag> d32;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(d32, bf16_bits(v))), d16,
             reinterpret_cast<std::uint16_t*>(p));
}

template <class T>
HWY_NOINLINE void store_tail(Floats v, T* p, std::int64_t count) {
  HWY_ALIGN T buffer[kLanes];
  store(v, buffer);
  std::memcpy(p, buffer, static_cast<std::size_t>(count) * sizeof(T));
}

template <class T>
HWY_INLINE void store_up_to(Floats v, T* p, std::int64_t count) {
  if (HWY_LIKELY(count >= kLanes)) {
    store(v, p);
  } else {
    store_tail(v, p, count);
  }
}

// All of a vector, or its first `count` elements.
template <bool kTail, class T>
HWY_INLINE Floats load_part(const T* p, std::int64_t count) {
  if constexpr (kTail) {
    return load_tail(p, count);
  } else {
    return load(p);
  }
}

template <bool kTail, class T>
HWY_INLINE void store_part(Floats v, T* p, std::int64_t count) {
  if constexpr (kTail) {
    store_tail(v, p, count);
  } else {
    store(v, p);
  }
}

// y[i] = f(in[i]...) for i in [0, size).
template <class T, class F, class... In>
HWY_INLINE void map(std::int64_t size, T* y, const F& f, const In*... in) {
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) store(f(load(in + i)...), y + i);
  if (i < size) store_tail(f(load_tail(in + i, size - i)...), y + i, size - i);
}

// ---- sums

// Lane sums of four vectors, in one order: (0+2)+(1+3) within a block of four lanes, then blocks by
// halves. out[i] is the sum of vector i.
HWY_INLINE void sum_lanes_of_four(Floats a, Floats b, Floats c, Floats e, float* out);

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void sum_lanes_of_four(Floats a, Floats b, Floats c, Floats e, float* out) {
  out[0] = hn::GetLane(a);
  out[1] = hn::GetLane(b);
  out[2] = hn::GetLane(c);
  out[3] = hn::GetLane(e);
}
#else
template <class D>
HWY_INLINE hn::Vec<hn::Full128<float>> fold_blocks(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return fold_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

HWY_INLINE void sum_lanes_of_four(Floats a, Floats b, Floats c, Floats e, float* out) {
  const FloatTag d;
  // [a0+a2, c0+c2, a1+a3, c1+c3] in every block, likewise for b and e.
  const Floats ac = hn::Add(hn::InterleaveLower(d, a, c), hn::InterleaveUpper(d, a, c));
  const Floats be = hn::Add(hn::InterleaveLower(d, b, e), hn::InterleaveUpper(d, b, e));
  const Floats all = hn::Add(hn::InterleaveLower(d, ac, be), hn::InterleaveUpper(d, ac, be));
  hn::StoreU(fold_blocks(d, all), hn::Full128<float>(), out);
}
#endif

HWY_INLINE float sum_lanes(Floats v) {
  float sums[4];
  sum_lanes_of_four(v, v, v, v, sums);
  return sums[0];
}

// sum_i f(i-th vectors of in...), f(accumulator, vectors...) -> accumulator. Four accumulators take
// the vectors in turn; they are added as (0+1)+(2+3). The order depends on `size` alone.
template <class F, class... In>
HWY_INLINE float accumulate(std::int64_t size, const F& f, const In*... in) {
  Floats sum[4] = {hn::Zero(FloatTag()), hn::Zero(FloatTag()), hn::Zero(FloatTag()),
                   hn::Zero(FloatTag())};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
    TANDEM_UNROLL
    for (int k = 0; k < 4; ++k) sum[k] = f(sum[k], load(in + i + k * kLanes)...);
  }
  for (; i + kLanes <= size; i += kLanes) sum[0] = f(sum[0], load(in + i)...);
  if (i < size) sum[1] = f(sum[1], load_tail(in + i, size - i)...);
  return sum_lanes(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])));
}

HWY_INLINE float sum_of_squares(const float* x, std::int64_t size) {
  return accumulate(
      size, [](Floats sum, Floats v) HWY_ATTR { return hn::MulAdd(v, v, sum); }, x);
}

HWY_INLINE float dot(const float* x, const float* y, std::int64_t size) {
  return accumulate(
      size, [](Floats sum, Floats a, Floats b) HWY_ATTR { return hn::MulAdd(a, b, sum); }, x, y);
}

// ---- transcendental functions

// Highway's Exp is right between about -104 and 89 only: beyond, its exponent arithmetic wraps, and
// it maps NaN to 0. Here overflow gives infinity, underflow 0, and NaN stays visible. exp(0) is
// exactly 1.
HWY_INLINE Floats exp(Floats x) {
  const FloatTag d;
  const Floats clamped = hn::Min(hn::Max(x, hn::Set(d, -105.0f)), hn::Set(d, 89.0f));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, clamped));
}

HWY_INLINE Floats sigmoid(Floats x) {
  const Floats one = hn::Set(FloatTag(), 1.0f);
  return hn::Div(one, hn::Add(one, exp(hn::Neg(x))));
}

HWY_INLINE Floats silu(Floats x) { return hn::Mul(x, sigmoid(x)); }

// log(1 + e^x); x itself above 20, where the two agree to fp32.
HWY_INLINE Floats softplus(Floats x) {
  const FloatTag d;
  const Floats limit = hn::Set(d, 20.0f);
  const Floats small = hn::Log1p(d, exp(hn::Min(x, limit)));
  return hn::IfThenElse(hn::Or(hn::Gt(x, limit), hn::IsNaN(x)), x, small);
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
