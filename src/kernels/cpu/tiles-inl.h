// What register tiles share: dense operands and blocks of accumulators.
#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/simd-inl.h"
#include "tensor/tensor_view.h"

#if defined(TANDEM_KERNELS_CPU_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_TILES_INL_H_
#undef TANDEM_KERNELS_CPU_TILES_INL_H_
#else
#define TANDEM_KERNELS_CPU_TILES_INL_H_
#endif

// Vector registers: tiles are as large as they allow. The other targets have 16.
#undef TANDEM_32_REGISTERS
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
#define TANDEM_32_REGISTERS 1
#else
#define TANDEM_32_REGISTERS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

// Rows of a dense fp32 or bf16 matrix, `columns` elements from one to the next.
template <class T>
struct Dense {
  const T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  const T* row(std::int64_t i) const { return data + i * columns; }
  Dense slice(std::int64_t first, std::int64_t count) const { return {row(first), count, columns}; }
};

template <class T>
HWY_INLINE Dense<T> dense_weight(const WeightMatrix& w) {
  return {static_cast<const T*>(w.data), w.outputs, w.inputs};
}

// body(std::integral_constant<int, n>) with n = `count`, which is in [1, Kmax].
template <int Kmax, class Body>
HWY_INLINE void with_constant(std::int64_t count, const Body& body) {
  if constexpr (Kmax > 1) {
    if (count < Kmax) return with_constant<Kmax - 1>(count, body);
  }
  body(std::integral_constant<int, Kmax>());
}

// body(first row, rows) over [0, rows) in groups of at most Kmax rows and nearly one size: a tile
// of one row does as many loads as one of four.
template <int Kmax, class Body>
HWY_INLINE void for_row_groups(std::int64_t rows, const Body& body) {
  const std::int64_t groups = (rows + Kmax - 1) / Kmax;
  for (std::int64_t g = 0, first = 0; g < groups; ++g) {
    const std::int64_t left = groups - g;
    const std::int64_t count = (rows - first + left - 1) / left;
    body(first, count);
    first += count;
  }
}

// Accumulators of a tile.
template <int Kt, int Kn>
HWY_INLINE void clear(Floats (&sum)[Kt][Kn]) {
  TANDEM_UNROLL
  for (int t = 0; t < Kt; ++t) {
    TANDEM_UNROLL
    for (int n = 0; n < Kn; ++n) sum[t][n] = hn::Zero(FloatTag());
  }
}

// y[t][n] = the sum over the lanes of sum[t][n].
template <int Kt, int Kn>
HWY_INLINE void store_lane_sums(const Floats (&sum)[Kt][Kn], float* y, std::int64_t y_stride) {
  constexpr int kCount = Kt * Kn;
  const Floats* flat = &sum[0][0];
  TANDEM_UNROLL
  for (int i = 0; i < kCount; i += 4) {
    float out[4];
    const auto at = [](int k) { return k < kCount ? k : kCount - 1; };
    sum_lanes_of_four(flat[i], flat[at(i + 1)], flat[at(i + 2)], flat[at(i + 3)], out);
    for (int k = i; k < i + 4 && k < kCount; ++k) y[k / Kn * y_stride + k % Kn] = out[k - i];
  }
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
