// Element types of weights, activations and caches, and the scalar conversions between them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem {

// kMxfp4 is packed: two elements a byte plus one scale byte for 32 elements (mxfp4.h).
enum class DType : std::uint8_t { kF32, kF16, kBF16, kU8, kI32, kI64, kF64, kMxfp4 };

std::string_view to_string(DType dtype);

// Bytes of one element; kMxfp4 has no whole-byte element and is a programmer error here.
std::size_t element_bytes(DType dtype);

// bf16 is the upper half of an fp32.
struct BF16 {
  std::uint16_t bits = 0;
};

inline float to_float(BF16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// Round to nearest, ties to even; NaN stays NaN.
inline BF16 to_bf16(float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>(bits >> 16)};
}

// IEEE half, given as its bits.
float half_to_float(std::uint16_t bits);

}  // namespace tandem
