// Randomness for ids and for seeds that the client left open.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace tandem {

// From the operating system. Thread-safe.
inline std::uint64_t random_bits() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

// `prefix` and 24 hexadecimal digits: the ids of answers.
inline std::string random_id(std::string_view prefix) {
  return fmt::format("{}{:016x}{:08x}", prefix, random_bits(), random_bits() >> 32);
}

}  // namespace tandem
