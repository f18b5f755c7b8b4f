// Any bytes are a valid MXFP4 weight. What decodes to finite values must survive a round trip.
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "tensor/mxfp4.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  constexpr std::size_t kGroupBytes = kMxfp4GroupSize / 2;
  const std::size_t groups = size / (kGroupBytes + 1);
  const std::span<const std::uint8_t> packed(data, groups * kGroupBytes);
  std::vector<std::uint8_t> scale(data + packed.size(), data + packed.size() + groups);
  // 3..252: six times the scale must not overflow, an eighth of it must still be a scale.
  for (auto& byte : scale) byte = static_cast<std::uint8_t>(3 + byte % 250);

  std::vector<float> values(groups * kMxfp4GroupSize);
  mxfp4_decode(packed, scale, values);
  std::vector<std::uint8_t> packed_again(packed.size());
  std::vector<std::uint8_t> scale_again(groups);
  mxfp4_encode(values, packed_again, scale_again);
  std::vector<float> again(values.size());
  mxfp4_decode(packed_again, scale_again, again);
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(std::isfinite(values[i]), "element {} is {}", i, values[i]);
    CHECK(values[i] == again[i], "element {}: {} became {}", i, values[i], again[i]);
  }
  return 0;
}
