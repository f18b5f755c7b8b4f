// Philox4x32-10, a counter-based random generator: the same key and counter give the same bits
// anywhere. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace tandem {

// 128 random bits for (key, counter); a pure function.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key,
                                              std::array<std::uint32_t, 4> counter) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

// Uniform in [0, 1) with 53 bits, for (key, 64-bit index).
constexpr double philox_uniform(std::uint64_t key, std::uint64_t index) {
  const auto bits = philox(
      key, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, 0});
  const std::uint64_t wide = (std::uint64_t{bits[0]} << 32) | bits[1];
  return static_cast<double>(wide >> 11) * 0x1p-53;
}

}  // namespace tandem
