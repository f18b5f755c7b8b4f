// Register tiles of the products in products.h.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products.h"
#include "kernels/cpu/simd-inl.h"
#include "tensor/mxfp4.h"

#if defined(TANDEM_KERNELS_CPU_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_PRODUCTS_INL_H_
#undef TANDEM_KERNELS_CPU_PRODUCTS_INL_H_
#else
#define TANDEM_KERNELS_CPU_PRODUCTS_INL_H_
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

template <int Kt, int Kn>
HWY_INLINE void clear(Floats (&sum)[Kt][Kn]) {
  TANDEM_UNROLL
  for (int t = 0; t < Kt; ++t) {
    TANDEM_UNROLL
    for (int n = 0; n < Kn; ++n) sum[t][n] = hn::Zero(FloatTag());
  }
}

// ---- y[t][n] = w[n] . x[t], an accumulator for each of Kt rows of x by Kn rows of w

// Fits 16 registers: Kt * Kn accumulators, and the shorter side's operands.
template <int Kt>
inline constexpr int kTileRowsOfW = Kt == 1   ? 8
                                    : Kt == 2 ? 6
                                    : Kt == 3 ? 4
                                              : 3;
inline constexpr int kTileRowsOfX = 4;

template <bool kTail, int Kt, int Kn, class T>
HWY_INLINE void dot_step(const float* x, std::int64_t x_stride, const T* w, std::int64_t w_stride,
                         std::int64_t count, Floats (&sum)[Kt][Kn]) {
  if constexpr (Kt < Kn) {
    Floats x_part[Kt];
    TANDEM_UNROLL
    for (int t = 0; t < Kt; ++t) x_part[t] = load_part<kTail>(x + t * x_stride, count);
    TANDEM_UNROLL
    for (int n = 0; n < Kn; ++n) {
      const Floats w_part = load_part<kTail>(w + n * w_stride, count);
      TANDEM_UNROLL
      for (int t = 0; t < Kt; ++t) sum[t][n] = hn::MulAdd(x_part[t], w_part, sum[t][n]);
    }
  } else {
    Floats w_part[Kn];
    TANDEM_UNROLL
    for (int n = 0; n < Kn; ++n) w_part[n] = load_part<kTail>(w + n * w_stride, count);
    TANDEM_UNROLL
    for (int t = 0; t < Kt; ++t) {
      const Floats x_part = load_part<kTail>(x + t * x_stride, count);
      TANDEM_UNROLL
      for (int n = 0; n < Kn; ++n) sum[t][n] = hn::MulAdd(x_part, w_part[n], sum[t][n]);
    }
  }
}

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
  for (; n < w.rows; ++n) dot_tile<Kt, 1>(x, x_stride, w.row(n), w.columns, y + n, y_stride);
}

template <class T>
HWY_INLINE void dot_block(Dense<T> w, ConstActivations x, Activations y) {
  std::int64_t t = 0;
  for (; t + kTileRowsOfX <= x.rows; t += kTileRowsOfX) {
    dot_rows_of_x<kTileRowsOfX>(w, x.row(t), x.stride, y.row(t), y.stride);
  }
  switch (x.rows - t) {
    case 3:
      return dot_rows_of_x<3>(w, x.row(t), x.stride, y.row(t), y.stride);
    case 2:
      return dot_rows_of_x<2>(w, x.row(t), x.stride, y.row(t), y.stride);
    case 1:
      return dot_rows_of_x<1>(w, x.row(t), x.stride, y.row(t), y.stride);
    default:
      return;
  }
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

// ---- MXFP4

// The value of every E8M0 byte: 2^(byte-127), exact; subnormal for 0.
inline constexpr std::array<float, 256> kScale = [] {
  std::array<float, 256> table{};
  table[0] = 0x1p-127f;
  for (std::uint32_t b = 1; b < 255; ++b) table[b] = std::bit_cast<float>(b << 23);
  table[255] = std::numeric_limits<float>::quiet_NaN();
  return table;
}();

inline constexpr std::int64_t kGroup = kMxfp4GroupSize;
inline constexpr int kGroupVectors = static_cast<int>(kGroup / kLanes);

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void decode_group(const std::uint8_t* packed, std::uint8_t scale,
                             Floats (&values)[kGroupVectors]) {
  for (int i = 0; i < kGroupVectors; ++i) {
    const int code = i % 2 == 0 ? packed[i / 2] & 15 : packed[i / 2] >> 4;
    values[i] = hn::Set(FloatTag(), kE2m1Values[static_cast<std::size_t>(code)] * kScale[scale]);
  }
}
#else
// Bits 16-23 and 24-31 of the fp32 value of every code; the lower half is zero.
alignas(16) inline constexpr std::array<std::uint8_t, 16> kE2m1Lower = {
    0x00, 0x00, 0x80, 0xC0, 0x00, 0x40, 0x80, 0xC0, 0x00, 0x00, 0x80, 0xC0, 0x00, 0x40, 0x80, 0xC0};
alignas(16) inline constexpr std::array<std::uint8_t, 16> kE2m1Upper = {
    0x00, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, 0x80, 0xBF, 0xBF, 0xBF, 0xC0, 0xC0, 0xC0, 0xC0};

// Shuffles work within blocks of four lanes. A pass decodes up to 16 codes a block, so that
// widening them twice (to 16, then to 32 bits) leaves vector v of the pass with columns v*kLanes..
// in order.
inline constexpr int kPassVectors = kGroupVectors < 4 ? kGroupVectors : 4;
inline constexpr int kPasses = kGroupVectors / kPassVectors;
inline constexpr std::size_t kVectorBytes = 4 * static_cast<std::size_t>(kLanes);

// The byte of a group that holds the code for every slot of every block; a byte holds two.
alignas(
    64) inline constexpr std::array<std::array<std::uint8_t, kVectorBytes>, kPasses> kCodeBytes =
    [] {
      std::array<std::array<std::uint8_t, kVectorBytes>, kPasses> bytes{};
      for (std::size_t pass = 0; pass < kPasses; ++pass) {
        for (std::size_t i = 0; i < kVectorBytes; ++i) {
          const std::size_t block = i / 16, vector = i % 16 / 4, lane = block * 4 + i % 4;
          if (vector >= kPassVectors) continue;
          const std::size_t column = (pass * kPassVectors + vector) * kLanes + lane;
          bytes[pass][i] = static_cast<std::uint8_t>(column / 2);
        }
      }
      return bytes;
    }();

HWY_INLINE void decode_group(const std::uint8_t* packed, std::uint8_t scale,
                             Floats (&values)[kGroupVectors]) {
  const FloatTag d;
  const hn::Repartition<std::uint8_t, FloatTag> d8;
  const hn::Repartition<std::uint16_t, FloatTag> d16;
  const auto group = hn::LoadDup128(d8, packed);
  const auto zero = hn::Zero(d16);
  const auto lower_table = hn::LoadDup128(d8, kE2m1Lower.data());
  const auto upper_table = hn::LoadDup128(d8, kE2m1Upper.data());
  const Floats factor = hn::Set(d, kScale[scale]);
  TANDEM_UNROLL
  for (int pass = 0; pass < kPasses; ++pass) {
    // Slots come in pairs that share a byte: the even one takes the low nibble, the odd one the
    // high.
    const auto bytes = hn::BitCast(
        d16, hn::TableLookupBytes(group,
                                  hn::Load(d8, kCodeBytes[static_cast<std::size_t>(pass)].data())));
    const auto low = hn::And(bytes, hn::Set(d16, 0x000F));
    const auto high = hn::And(hn::ShiftRight<4>(bytes), hn::Set(d16, 0x0F00));
    const auto codes = hn::BitCast(d8, hn::Or(low, high));
    const auto lower = hn::TableLookupBytes(lower_table, codes);
    const auto upper = hn::TableLookupBytes(upper_table, codes);
    const auto store_pair = [&](auto halves, int first) HWY_ATTR {
      const auto bits = hn::BitCast(d16, halves);
      values[first] = hn::Mul(hn::BitCast(d, hn::InterleaveLower(d16, zero, bits)), factor);
      values[first + 1] = hn::Mul(hn::BitCast(d, hn::InterleaveUpper(d16, zero, bits)), factor);
    };
    store_pair(hn::InterleaveLower(d8, lower, upper), pass * kPassVectors);
    if constexpr (kPassVectors == 4) {
      store_pair(hn::InterleaveUpper(d8, lower, upper), pass * kPassVectors + 2);
    }
  }
}
#endif

struct Mxfp4Row {
  const std::uint8_t* packed;
  const std::uint8_t* scale;
};

HWY_INLINE Mxfp4Row mxfp4_row(const WeightMatrix& w, std::int64_t i) {
  return {static_cast<const std::uint8_t*>(w.data) + i * (w.inputs / 2),
          w.scale + i * (w.inputs / kGroup)};
}

// values [count, inputs] = rows [first, first + count) of w, in fp32.
HWY_INLINE void decode_rows(const WeightMatrix& w, std::int64_t first, std::int64_t count,
                            float* values) {
  for (std::int64_t r = first; r < first + count; ++r) {
    const Mxfp4Row row = mxfp4_row(w, r);
    for (std::int64_t g = 0; g < w.inputs / kGroup; ++g, values += kGroup) {
      Floats group[kGroupVectors];
      decode_group(row.packed + g * (kGroup / 2), row.scale[g], group);
      TANDEM_UNROLL
      for (int i = 0; i < kGroupVectors; ++i) store(group[i], values + i * kLanes);
    }
  }
}

// One row of x by Kn rows of w, decoded in registers. The same sums in the same order as dot_tile.
template <int Kn>
HWY_INLINE void mxfp4_dot_tile(const WeightMatrix& w, std::int64_t n, const float* x, float* y) {
  Floats sum[1][Kn];
  clear(sum);
  Mxfp4Row rows[Kn];
  for (int k = 0; k < Kn; ++k) rows[k] = mxfp4_row(w, n + k);
  for (std::int64_t g = 0; g < w.inputs / kGroup; ++g) {
    TANDEM_UNROLL
    for (int k = 0; k < Kn; ++k) {
      Floats values[kGroupVectors];
      decode_group(rows[k].packed + g * (kGroup / 2), rows[k].scale[g], values);
      TANDEM_UNROLL
      for (int i = 0; i < kGroupVectors; ++i) {
        sum[0][k] = hn::MulAdd(load(x + g * kGroup + i * kLanes), values[i], sum[0][k]);
      }
    }
  }
  store_lane_sums(sum, y, Kn);
}

HWY_INLINE void mxfp4_dot_row_of_x(const WeightMatrix& w, const float* x, float* y) {
  constexpr int kN = 4;
  std::int64_t n = 0;
  for (; n + kN <= w.outputs; n += kN) mxfp4_dot_tile<kN>(w, n, x, y + n);
  for (; n < w.outputs; ++n) mxfp4_dot_tile<1>(w, n, x, y + n);
}

// Calls body(first row, Dense<float>) over a packed weight, decoded block by block into scratch.
template <class Body>
HWY_INLINE void for_decoded_blocks(const WeightMatrix& w, const Body& body) {
  static thread_local Scratch scratch;
  const std::int64_t block =
      std::min(w.outputs, rows_in_cache(w.inputs * static_cast<std::int64_t>(sizeof(float))));
  float* values = scratch.floats(block * w.inputs);
  for (std::int64_t n = 0; n < w.outputs; n += block) {
    const std::int64_t rows = std::min(block, w.outputs - n);
    decode_rows(w, n, rows, values);
    body(n, Dense<float>{values, rows, w.inputs});
  }
}

HWY_INLINE void mxfp4_dot_all(const WeightMatrix& w, ConstActivations x, Activations y) {
  if (x.rows == 1) return mxfp4_dot_row_of_x(w, x.data, y.data);
  for_decoded_blocks(w, [&](std::int64_t n, Dense<float> rows)
                            HWY_ATTR { dot_block(rows, x, y.slice(n, rows.rows)); });
}

// ---- y[t] += sum_j a[t][j] w[j], an accumulator for each of Kt rows by Kc vectors of columns

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

template <class T>
HWY_INLINE void weighted_all(Dense<T> w, ConstActivations a, Activations y) {
  const Factors factors = {a.data, a.stride, 1};
  if (y.rows < 4) {
    weighted_rows<8>(w, factors, y);
  } else {
    weighted_rows<3>(w, factors, y);
  }
}

// ---- entry points

HWY_INLINE void multiply_rows_impl(const WeightMatrix& w, ConstActivations x, Activations y) {
  switch (w.dtype) {
    case DType::kBF16:
      return dot_all(dense_weight<BF16>(w), x, y);
    case DType::kF32:
      return dot_all(dense_weight<float>(w), x, y);
    default:
      return mxfp4_dot_all(w, x, y);
  }
}

HWY_INLINE void add_weighted_rows_impl(const WeightMatrix& w, ConstActivations a, Activations y) {
  switch (w.dtype) {
    case DType::kBF16:
      return weighted_all(dense_weight<BF16>(w), a, y);
    case DType::kF32:
      return weighted_all(dense_weight<float>(w), a, y);
    default:
      return for_decoded_blocks(w, [&](std::int64_t n, Dense<float> rows)
                                       HWY_ATTR { weighted_all(rows, a.slice(n, rows.rows), y); });
  }
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
