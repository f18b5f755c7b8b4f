// Scalar functions and warp reductions that the kernels share. Every reduction has one fixed order.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace tandem::cuda {

__device__ inline float widen(BF16 value) {
  return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16);
}
// The two halves of a word of two bf16, the lower first in memory.
__device__ inline float low_half(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_half(std::uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}
// To nearest, ties to even; NaN stays NaN.
__device__ inline std::uint32_t narrow_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ inline BF16 narrow(float value) {
  return {static_cast<std::uint16_t>(narrow_pair(value, 0) & 0xffffu)};
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

// Butterfly: every lane gets the same bits.
__device__ inline float warp_sum(float x) {
  for (int distance = 16; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, distance);
  }
  return x;
}

}  // namespace tandem::cuda
