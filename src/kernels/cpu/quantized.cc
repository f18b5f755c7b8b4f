#include "kernels/cpu/quantized.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products.h"
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantized.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/tiled-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

using IntTag = hn::RebindToSigned<FloatTag>;
using Ints = hn::Vec<IntTag>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
using Words = hn::Vec<WordTag>;

inline constexpr int kParts = 4;  // of a group in a tile
// A tile is done before the processor sees that the next one follows.
inline constexpr std::int64_t kBytesAheadOfCodes = 1024;

// 12 + 2 * the value of every E2M1 code.
alignas(16) inline constexpr std::array<std::uint8_t, 16> kLevels = {12, 13, 14, 15, 16, 18, 20, 24,
                                                                     12, 11, 10, 9,  8,  6,  4,  0};

// The levels of the codes in every byte, which are below 16.
HWY_INLINE Words levels(Words codes) {
#if HWY_TARGET == HWY_SCALAR
  std::uint32_t result = 0;
  for (int shift = 0; shift < 32; shift += 8) {
    const auto code = static_cast<std::size_t>(hn::GetLane(codes) >> shift & 15u);
    result |= static_cast<std::uint32_t>(kLevels[code]) << shift;
  }
  return hn::Set(WordTag(), result);
#else
  const hn::Repartition<std::uint8_t, WordTag> d8;
  return hn::BitCast(
      WordTag(), hn::TableLookupBytes(hn::LoadDup128(d8, kLevels.data()), hn::BitCast(d8, codes)));
#endif
}

// The levels of a strip in one group: word k of a lane holds columns 4k..4k+3.
struct StripGroup {
  Words word[2 * kParts];

  HWY_INLINE explicit StripGroup(const std::uint8_t* at) {
    const WordTag d;
    const Words mask = hn::Set(d, 0x0F0F0F0Fu);
    TANDEM_UNROLL
    for (int i = 0; i < kParts; ++i) {
      const Words both =
          hn::LoadU(d, reinterpret_cast<const std::uint32_t*>(at + i * 4 * kTileOutputs));
      word[i] = levels(hn::And(both, mask));
      word[kParts + i] = levels(hn::And(hn::ShiftRight<4>(both), mask));
    }
  }
};

#if HWY_TARGET == HWY_AVX3_DL
// sum + the products of four neighbouring bytes, word `x` in every lane. Highway 1.0.3 neither has
// the operation nor lets the compiler have it.
HWY_INLINE Ints add_products(Ints sum, Words w, const std::int8_t (&x)[4]) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "m"(x));
  return sum;
}
HWY_INLINE Ints add_digits(Ints sum, const StripGroup& w, const std::int8_t (&x)[2 * kParts][4]) {
  TANDEM_UNROLL
  for (int k = 0; k < 2 * kParts; ++k) sum = add_products(sum, w.word[k], x[k]);
  return sum;
}
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
HWY_INLINE Ints word_of(const std::int8_t (&x)[4]) {
  std::int32_t word;
  std::memcpy(&word, x, sizeof(word));
  return hn::Set(IntTag(), word);
}
// Pairs of products, at most 2 * 24 * 128: five of them fit 16 bits.
HWY_INLINE Ints pair_products(Words w, Ints x) {
#if HWY_TARGET == HWY_AVX3
  return Ints{_mm512_maddubs_epi16(w.raw, x.raw)};
#else
  return Ints{_mm256_maddubs_epi16(w.raw, x.raw)};
#endif
}
HWY_INLINE Ints sum_of_pairs(Ints pairs) {
#if HWY_TARGET == HWY_AVX3
  return Ints{_mm512_madd_epi16(pairs.raw, _mm512_set1_epi16(1))};
#else
  return Ints{_mm256_madd_epi16(pairs.raw, _mm256_set1_epi16(1))};
#endif
}
HWY_INLINE Ints add_digits(Ints sum, const StripGroup& w, const std::int8_t (&x)[2 * kParts][4]) {
  const IntTag d;
  const hn::Repartition<std::int16_t, IntTag> d16;
  TANDEM_UNROLL
  for (int half = 0; half < 2; ++half) {
    auto pairs = hn::Zero(d16);
    TANDEM_UNROLL
    for (int i = 0; i < kParts; ++i) {
      const int k = half * kParts + i;
      pairs = hn::Add(pairs, hn::BitCast(d16, pair_products(w.word[k], word_of(x[k]))));
    }
    sum = hn::Add(sum, sum_of_pairs(hn::BitCast(d, pairs)));
  }
  return sum;
}
#else
HWY_INLINE Ints add_digits(Ints sum, const StripGroup& w, const std::int8_t (&x)[2 * kParts][4]) {
  const IntTag d;
  for (int k = 0; k < 2 * kParts; ++k) {
    Words rest = w.word[k];
    for (int c = 0; c < 4; ++c, rest = hn::ShiftRight<8>(rest)) {
      const Ints level = hn::BitCast(d, hn::And(rest, hn::Set(WordTag(), 0xFFu)));
      sum = hn::Add(sum, hn::Mul(level, hn::Set(d, static_cast<std::int32_t>(x[k][c]))));
    }
  }
  return sum;
}
#endif

HWY_INLINE Ints sum_of_products(const StripGroup& w, const QuantizedGroup& x) {
  const IntTag d;
  const Ints high = add_digits(hn::Zero(d), w, x.high);
  return hn::Add(hn::ShiftLeft<8>(high), add_digits(hn::Set(d, x.offset), w, x.low));
}

HWY_INLINE Floats group_scales(const std::uint8_t* bytes) {
  const WordTag d;
  const hn::Rebind<std::uint8_t, WordTag> d8;
  return hn::BitCast(FloatTag(), hn::ShiftLeft<23>(hn::PromoteTo(d, hn::LoadU(d8, bytes))));
}

// Rows of x whose sums share the registers with the levels of a group.
#if TANDEM_32_REGISTERS
inline constexpr int kMaxQuantizedRows = 12;
#else
inline constexpr int kMaxQuantizedRows = 4;
#endif

// Kt rows of x by one strip.
template <int Kt>
HWY_NOINLINE void quantized_tile(const WeightMatrix& w, std::int64_t strip,
                                 const QuantizedGroup* const* x, float* const* y) {
  const TiledBytes tile = tile_bytes(w);
  const std::uint8_t* codes = strip_start(w, tile.data, strip);
  const std::uint8_t* scales =
      w.scale + strip / kStripsInTile * tile.scale + strip % kStripsInTile * kLanes;
  Floats sum[1][Kt];
  clear(sum);
  for (std::int64_t g = 0; g < w.inputs / kMxfp4GroupSize; ++g) {
    const std::uint8_t* at = codes + g * kParts * 4 * kTileOutputs;
    TANDEM_UNROLL
    for (int i = 0; i < kParts; ++i) hwy::Prefetch(at + kBytesAheadOfCodes + i * 4 * kTileOutputs);
    const StripGroup group(at);
    const Floats scale = group_scales(scales + g * kTileOutputs);
    TANDEM_UNROLL
    for (int t = 0; t < Kt; ++t) {
      const QuantizedGroup& values = x[t][g];
      const Floats products = hn::ConvertTo(FloatTag(), sum_of_products(group, values));
      sum[0][t] =
          hn::MulAdd(products, hn::Mul(scale, hn::Set(FloatTag(), values.scale)), sum[0][t]);
    }
  }
  const std::int64_t first = strip * kLanes;
  for (int t = 0; t < Kt; ++t) store_up_to(sum[0][t], y[t] + first, w.outputs - first);
}

void multiply_all(const WeightMatrix& w, const QuantizedRows& x, const std::int32_t* rows,
                  Activations y) {
  const std::int64_t strips = (w.outputs + kLanes - 1) / kLanes;
  for (std::int64_t strip = 0; strip < strips; strip += kStripsInTile) {
    const std::int64_t last = std::min(strip + kStripsInTile, strips);
    for_row_groups<kMaxQuantizedRows>(y.rows, [&](std::int64_t t, std::int64_t count) HWY_ATTR {
      const QuantizedGroup* from[kMaxQuantizedRows];
      float* to[kMaxQuantizedRows];
      for (std::int64_t i = 0; i < count; ++i) {
        from[i] = x.row(rows == nullptr ? t + i : rows[t + i]);
        to[i] = y.row(t + i);
      }
      with_constant<kMaxQuantizedRows>(count, [&](auto together) HWY_ATTR {
        for (std::int64_t s = strip; s < last; ++s) quantized_tile<together.value>(w, s, from, to);
      });
    });
  }
}

HWY_INLINE void store_bytes(Ints v, std::int8_t* to) {
  HWY_ALIGN std::int32_t values[kLanes];
  hn::Store(v, IntTag(), values);
  for (std::int64_t k = 0; k < kLanes; ++k) to[k] = static_cast<std::int8_t>(values[k]);
}

void quantize(const float* x, std::int64_t columns, QuantizedGroup* to) {
  const FloatTag d;
  const IntTag di;
  for (std::int64_t first = 0; first < columns; first += kMxfp4GroupSize, ++to) {
    Floats largest = hn::Zero(d), broken = hn::Zero(d);
    for (std::int64_t i = 0; i < kMxfp4GroupSize; i += kLanes) {
      const Floats v = load(x + first + i);
      largest = hn::Max(largest, hn::Abs(v));
      broken = hn::MulAdd(v, hn::Zero(d), broken);  // NaN where v is no number
    }
    const float size = hn::GetLane(hn::MaxOfLanes(d, largest));
    const Floats inverse = hn::Set(d, size > 0 ? 127.0f / size : 0.0f);
    Ints total = hn::Zero(di);
    for (std::int64_t i = 0; i < kMxfp4GroupSize; i += kLanes) {
      const Floats value = hn::Mul(load(x + first + i), inverse);
      const Ints high = hn::NearestInt(value);
      const Floats rest = hn::Sub(value, hn::ConvertTo(d, high));
      const Ints low = hn::Min(hn::NearestInt(hn::Mul(rest, hn::Set(d, 256.0f))), hn::Set(di, 127));
      store_bytes(high, to->high[0] + i);
      store_bytes(low, to->low[0] + i);
      total = hn::Add(total, hn::Add(hn::ShiftLeft<8>(high), low));
    }
    to->scale = size / (2 * 256 * 127) + sum_lanes(broken);
    to->offset = -12 * hn::GetLane(hn::SumOfLanes(di, total));
  }
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu {

HWY_EXPORT(multiply_all);
HWY_EXPORT(quantize);

void quantize_row(const float* x, std::int64_t columns, QuantizedGroup* to) noexcept {
  HWY_DYNAMIC_DISPATCH(quantize)(x, columns, to);
}

void multiply_quantized(const WeightMatrix& w, const QuantizedRows& x, const std::int32_t* rows,
                        std::int64_t first, std::int64_t last, Activations y) noexcept {
  const std::int64_t count = last - first;
  HWY_DYNAMIC_DISPATCH(multiply_all)(weight_rows(w, first, count), x, rows, y.slice(first, count));
}

double quantized_output_ns(const WeightMatrix& w, std::int64_t rows) {
  const auto inputs = static_cast<double>(w.inputs);
  return std::max(inputs * static_cast<double>(rows) * kNsPerFlop, inputs * 0.53 * kNsPerByte);
}

}  // namespace tandem::cpu
#endif  // HWY_ONCE
