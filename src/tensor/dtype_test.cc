#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace tandem {
namespace {

constexpr std::uint32_t kPatterns = 0x10000;

BF16 bf16(std::uint32_t bits) { return {static_cast<std::uint16_t>(bits)}; }

// IEEE half by its definition: round to nearest, ties to even, in exact arithmetic.
std::uint16_t half_bits(float value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | 0x7c00);
  const int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  // In units of the last place; nearbyint rounds ties to even.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<std::uint16_t>(sign | (units + ((exponent + 14) << 10)));
}

TEST(DtypeTest, every_bf16_pattern_round_trips) {
  for (std::uint32_t bits = 0; bits < kPatterns; ++bits) {
    const float value = to_float(bf16(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), bits << 16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(to_bf16(value)))) << bits;
    } else {
      ASSERT_EQ(to_bf16(value).bits, bits);
    }
  }
}

TEST(DtypeTest, bf16_rounds_to_nearest_and_ties_to_even) {
  for (std::uint32_t bits = 0; bits < kPatterns - 1; ++bits) {
    if (!std::isfinite(to_float(bf16(bits)))) continue;
    const std::uint32_t tie = (bits << 16) | 0x8000u;
    ASSERT_EQ(to_bf16(std::bit_cast<float>(tie - 1)).bits, bits);
    ASSERT_EQ(to_bf16(std::bit_cast<float>(tie)).bits, bits + (bits & 1));
    ASSERT_EQ(to_bf16(std::bit_cast<float>(tie + 1)).bits, bits + 1);
  }
}

TEST(DtypeTest, a_nan_with_a_small_payload_stays_nan_in_bf16) {
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0xffffffffu)))));
}

TEST(DtypeTest, every_half_pattern_round_trips) {
  for (std::uint32_t bits = 0; bits < kPatterns; ++bits) {
    const float value = half_to_float(static_cast<std::uint16_t>(bits));
    const bool nan = (bits & 0x7c00u) == 0x7c00u && (bits & 0x3ffu) != 0;
    ASSERT_EQ(std::isnan(value), nan) << bits;
    if (!nan) {
      ASSERT_EQ(half_bits(value), bits);
    }
  }
}

TEST(DtypeTest, half_has_the_known_values) {
  EXPECT_EQ(half_to_float(0x3c00), 1.0f);
  EXPECT_EQ(half_to_float(0xc000), -2.0f);
  EXPECT_EQ(half_to_float(0x7bff), 65504.0f);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(half_to_float(0x0400), 0x1p-14f);
  EXPECT_EQ(half_to_float(0x7c00), INFINITY);
  EXPECT_TRUE(std::signbit(half_to_float(0x8000)));
}

TEST(DtypeTest, element_sizes_are_those_of_the_file_format) {
  EXPECT_EQ(element_bytes(DType::kU8), 1u);
  EXPECT_EQ(element_bytes(DType::kF16), 2u);
  EXPECT_EQ(element_bytes(DType::kBF16), 2u);
  EXPECT_EQ(element_bytes(DType::kF32), 4u);
  EXPECT_EQ(element_bytes(DType::kI64), 8u);
  EXPECT_DEATH(element_bytes(DType::kMxfp4), "MXFP4 has no element size");
}

}  // namespace
}  // namespace tandem
