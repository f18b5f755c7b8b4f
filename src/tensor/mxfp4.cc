#include "tensor/mxfp4.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tandem {
namespace {

// Halfway points between neighbouring magnitudes 0, .5, 1, 1.5, 2, 3, 4, 6.
constexpr std::array<float, 7> kEdges = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};

std::uint8_t encode_element(float scaled) {
  const float magnitude = std::fabs(scaled);
  std::uint8_t code = 0;
  while (code < kEdges.size() && magnitude > kEdges[code]) ++code;
  const bool tie = code < kEdges.size() && magnitude == kEdges[code];
  if (tie && (code & 1) != 0) ++code;
  return static_cast<std::uint8_t>(code | (std::signbit(scaled) ? 8 : 0));
}

// Exponent of the group's scale, in -127..127.
int scale_exponent(std::span<const float> group) {
  float amax = 0.0f;
  for (float value : group) amax = std::max(amax, std::fabs(value));
  if (amax == 0.0f) return -127;
  return std::clamp(std::ilogb(amax) - 2, -127, 127);
}

}  // namespace

float e8m0_to_float(std::uint8_t byte) {
  if (byte == kMxfp4NanScale) return std::numeric_limits<float>::quiet_NaN();
  if (byte == 0) return 0x1p-127f;
  return std::bit_cast<float>(static_cast<std::uint32_t>(byte) << 23);
}

void mxfp4_decode(std::span<const std::uint8_t> packed, std::span<const std::uint8_t> scale,
                  std::span<float> values) {
  CHECK(values.size() % kMxfp4GroupSize == 0 && packed.size() * 2 == values.size() &&
            scale.size() * kMxfp4GroupSize == values.size(),
        "{} values, {} packed bytes, {} scales", values.size(), packed.size(), scale.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int code = (i % 2 == 0) ? packed[i / 2] & 15 : packed[i / 2] >> 4;
    values[i] =
        kE2m1Values[static_cast<std::size_t>(code)] * e8m0_to_float(scale[i / kMxfp4GroupSize]);
  }
}

void mxfp4_encode(std::span<const float> values, std::span<std::uint8_t> packed,
                  std::span<std::uint8_t> scale) {
  CHECK(values.size() % kMxfp4GroupSize == 0 && packed.size() * 2 == values.size() &&
            scale.size() * kMxfp4GroupSize == values.size(),
        "{} values, {} packed bytes, {} scales", values.size(), packed.size(), scale.size());
  for (std::size_t g = 0; g < scale.size(); ++g) {
    const auto group = values.subspan(g * kMxfp4GroupSize, kMxfp4GroupSize);
    const int exponent = scale_exponent(group);
    scale[g] = static_cast<std::uint8_t>(exponent + 127);
    for (std::size_t i = 0; i < kMxfp4GroupSize; i += 2) {
      // Exact: a power of two, and double holds every scaled fp32.
      const auto scaled = [&](std::size_t k) {
        return static_cast<float>(std::ldexp(static_cast<double>(group[k]), -exponent));
      };
      const int low = encode_element(scaled(i));
      const int high = encode_element(scaled(i + 1));
      packed[g * 16 + i / 2] = static_cast<std::uint8_t>(low | (high << 4));
    }
  }
}

}  // namespace tandem
