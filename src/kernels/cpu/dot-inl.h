// Register tiles of multiply_rows (products.h) over dense weights.
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/tiles-inl.h"

#if defined(TANDEM_KERNELS_CPU_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_DOT_INL_H_
#undef TANDEM_KERNELS_CPU_DOT_INL_H_
#else
#define TANDEM_KERNELS_CPU_DOT_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

// y[t][n] = w[n] . x[t], an accumulator for each of Kt rows of x by Kn rows of w

// Kt * Kn accumulators, Kt operands of x and one of w. They fit the 32 registers of AVX-512 and
// NEON; of the 16 that the others have, the accumulators of 4 x 3 leave room for all but one of x,
// which then comes from memory.
#if TANDEM_32_REGISTERS
template <int Kt>
inline constexpr int kTileRowsOfW = Kt == 4 ? 6 : 8;
#else
template <int Kt>
inline constexpr int kTileRowsOfW = Kt == 1   ? 8
                                    : Kt == 2 ? 6
                                    : Kt == 3 ? 4
                                              : 3;
#endif
inline constexpr int kTileRowsOfX = 4;

// The rows of x stay in registers while those of w pass by.
template <bool kTail, int Kt, int Kn, class T>
HWY_INLINE void dot_step(const float* x, std::int64_t x_stride, const T* w, std::int64_t w_stride,
                         std::int64_t count, Floats (&sum)[Kt][Kn]) {
  Floats x_part[Kt];
  TANDEM_UNROLL
  for (int t = 0; t < Kt; ++t) x_part[t] = load_part<kTail>(x + t * x_stride, count);
  TANDEM_UNROLL
  for (int n = 0; n < Kn; ++n) {
    const Floats w_part = load_part<kTail>(w + n * w_stride, count);
    TANDEM_UNROLL
    for (int t = 0; t < Kt; ++t) sum[t][n] = hn::MulAdd(x_part[t], w_part, sum[t][n]);
  }
}

template <int Kt, int Kn, class T>
HWY_NOINLINE void dot_tile(const float* x, std::int64_t x_stride, const T* w, std::int64_t columns,
                           float* y, std::int64_t y_stride) {
  Floats sum[Kt][Kn];
  clear(sum);
  std::int64_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) {
    dot_step<false>(x + i, x_stride, w + i, columns, kLanes, sum);
  }
  if (i < columns) dot_step<true>(x + i, x_stride, w + i, columns, columns - i, sum);
  store_lane_sums(sum, y, y_stride);
}

// Kt rows of x by all rows of w.
template <int Kt, class T>
HWY_INLINE void dot_rows_of_x(Dense<T> w, const float* x, std::int64_t x_stride, float* y,
                              std::int64_t y_stride) {
  constexpr int kN = kTileRowsOfW<Kt>;
  std::int64_t n = 0;
  for (; n + kN <= w.rows; n += kN) {
    dot_tile<Kt, kN>(x, x_stride, w.row(n), w.columns, y + n, y_stride);
  }
  if (n == w.rows) return;
  with_constant<kN - 1>(w.rows - n, [&](auto rows) HWY_ATTR {
    dot_tile<Kt, rows.value>(x, x_stride, w.row(n), w.columns, y + n, y_stride);
  });
}

template <class T>
HWY_INLINE void dot_block(Dense<T> w, ConstActivations x, Activations y) {
  for_row_groups<kTileRowsOfX>(x.rows, [&](std::int64_t t, std::int64_t count) HWY_ATTR {
    with_constant<kTileRowsOfX>(count, [&](auto rows) HWY_ATTR {
      dot_rows_of_x<rows.value>(w, x.row(t), x.stride, y.row(t), y.stride);
    });
  });
}

// Rows of a weight that stay in the second-level cache while the rows of x pass by; a multiple of
// every tile's rows.
HWY_INLINE std::int64_t rows_in_cache(std::int64_t row_bytes) {
  constexpr std::int64_t kCacheBytes = 128 * 1024;
  constexpr std::int64_t kStep = 24;
  return std::max<std::int64_t>(kCacheBytes / std::max<std::int64_t>(row_bytes, 1) / kStep, 1) *
         kStep;
}

template <class T>
HWY_INLINE void dot_all(Dense<T> w, ConstActivations x, Activations y) {
  const std::int64_t block = rows_in_cache(w.columns * static_cast<std::int64_t>(sizeof(T)));
  for (std::int64_t n = 0; n < w.rows; n += block) {
    const std::int64_t rows = std::min(block, w.rows - n);
    dot_block(w.slice(n, rows), x, y.slice(n, rows));
  }
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
