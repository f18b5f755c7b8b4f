// Randomness for ids and for seeds that the client left open.
#pragma once

#include <cstdint>
#include <random>

namespace tandem {

// From the operating system. Thread-safe.
inline std::uint64_t random_bits() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace tandem
