// OCP MXFP4: groups of 32 elements along the input dimension; an E2M1 code each, one E8M0 scale a
// group.
//
// Packed layout of a [rows, columns] weight, as compressed-tensors stores it:
//   packed [rows, columns/2]  byte j of a row: low nibble = column 2j, high nibble = column 2j+1
//   scale  [rows, columns/32] byte b means 2^(b-127); 255 is NaN and refused at load
// Source: OCP Microscaling Formats v1.0; the encoder's rounding is that of oracle/k3_reference.py.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace tandem {

inline constexpr int kMxfp4GroupSize = 32;
inline constexpr std::uint8_t kMxfp4NanScale = 255;

// Value of an E2M1 code: bit 3 is the sign, bits 0-2 index {0, .5, 1, 1.5, 2, 3, 4, 6}.
inline constexpr std::array<float, 16> kE2m1Values = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                                      4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                                      -2.0f, -3.0f, -4.0f, -6.0f};

// 2^(byte-127), exact over 0..254 (0 is a subnormal); NaN for 255.
float e8m0_to_float(std::uint8_t byte);

// values [n] from packed [n/2] and scale [n/32]; n is a multiple of 32.
void mxfp4_decode(std::span<const std::uint8_t> packed, std::span<const std::uint8_t> scale,
                  std::span<float> values);

// The inverse: scale exponent floor(log2 amax) - 2, elements to nearest with ties to the even code,
// saturated at 6; the sign of zero is kept; a group of zeros gets scale byte 0.
void mxfp4_encode(std::span<const float> values, std::span<std::uint8_t> packed,
                  std::span<std::uint8_t> scale);

}  // namespace tandem
