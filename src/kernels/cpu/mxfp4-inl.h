// Products with packed weights: decoding in registers, or block by block into scratch.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/cpu/dot-inl.h"
#include "kernels/cpu/parallel.h"
#include "tensor/mxfp4.h"

#if defined(TANDEM_KERNELS_CPU_MXFP4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_MXFP4_INL_H_
#undef TANDEM_KERNELS_CPU_MXFP4_INL_H_
#else
#define TANDEM_KERNELS_CPU_MXFP4_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

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

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
