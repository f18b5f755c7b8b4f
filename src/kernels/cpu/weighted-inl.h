// Register tiles of sums of weighted rows (add_weighted_rows in products.h).
#include <hwy/highway.h>

#include <cstdint>

#include "kernels/cpu/tiles-inl.h"

#if defined(TANDEM_KERNELS_CPU_WEIGHTED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_WEIGHTED_INL_H_
#undef TANDEM_KERNELS_CPU_WEIGHTED_INL_H_
#else
#define TANDEM_KERNELS_CPU_WEIGHTED_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

// y[t] += sum_j a[t][j] w[j], an accumulator for each of Kt rows by Kc vectors of columns

// Factor a[t][j] stands at data[t * row_stride + j * term_stride].
struct Factors {
  const float* data;
  std::int64_t row_stride;
  std::int64_t term_stride;
};

template <bool kTail, int Kt, int Kc, class T>
HWY_NOINLINE void weighted_tile(Factors a, Dense<T> w, float* y, std::int64_t y_stride,
                                std::int64_t count) {
  const FloatTag d;
  Floats sum[Kt][Kc];
  TANDEM_UNROLL
  for (int t = 0; t < Kt; ++t) {
    TANDEM_UNROLL
    for (int c = 0; c < Kc; ++c) {
      sum[t][c] = load_part<kTail>(y + t * y_stride + c * kLanes, count);
    }
  }
  const T* row = w.data;
  for (std::int64_t j = 0; j < w.rows; ++j, row += w.columns, a.data += a.term_stride) {
    Floats w_part[Kc];
    TANDEM_UNROLL
    for (int c = 0; c < Kc; ++c) w_part[c] = load_part<kTail>(row + c * kLanes, count);
    TANDEM_UNROLL
    for (int t = 0; t < Kt; ++t) {
      const Floats factor = hn::Set(d, a.data[t * a.row_stride]);
      TANDEM_UNROLL
      for (int c = 0; c < Kc; ++c) sum[t][c] = hn::MulAdd(factor, w_part[c], sum[t][c]);
    }
  }
  TANDEM_UNROLL
  for (int t = 0; t < Kt; ++t) {
    TANDEM_UNROLL
    for (int c = 0; c < Kc; ++c) {
      store_part<kTail>(sum[t][c], y + t * y_stride + c * kLanes, count);
    }
  }
}

// One width of tile down all rows of y: its columns of w stay in the first-level cache.
template <bool kTail, int Kc, class T>
HWY_INLINE void weighted_columns(Dense<T> w, Factors a, Activations y, std::int64_t column,
                                 std::int64_t count) {
  w.data += column;
  const auto from = [&](std::int64_t t) {
    return Factors{a.data + t * a.row_stride, a.row_stride, a.term_stride};
  };
  std::int64_t t = 0;
  for (; t + 4 <= y.rows; t += 4) {
    weighted_tile<kTail, 4, Kc>(from(t), w, y.row(t) + column, y.stride, count);
  }
  for (; t < y.rows; ++t) {
    weighted_tile<kTail, 1, Kc>(from(t), w, y.row(t) + column, y.stride, count);
  }
}

// All rows of y, tiles of Kc vectors as far as they go, then one vector, then a part of one.
template <int Kc, class T>
HWY_INLINE void weighted_rows(Dense<T> w, Factors a, Activations y) {
  std::int64_t c = 0;
  for (; c + Kc * kLanes <= y.columns; c += Kc * kLanes) {
    weighted_columns<false, Kc>(w, a, y, c, kLanes);
  }
  for (; c + kLanes <= y.columns; c += kLanes) weighted_columns<false, 1>(w, a, y, c, kLanes);
  if (c < y.columns) weighted_columns<true, 1>(w, a, y, c, y.columns - c);
}

// Vectors of columns to four rows of y.
#if TANDEM_32_REGISTERS
inline constexpr int kWeightedColumns = 4;
#else
inline constexpr int kWeightedColumns = 3;
#endif

template <class T>
HWY_INLINE void weighted_all(Dense<T> w, ConstActivations a, Activations y) {
  const Factors factors = {a.data, a.stride, 1};
  if (y.rows < 4) {
    weighted_rows<8>(w, factors, y);
  } else {
    weighted_rows<kWeightedColumns>(w, factors, y);
  }
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
