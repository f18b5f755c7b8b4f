// One token of the delta rule on a state held in registers by 256 threads.
#pragma once

#include "kernels/cuda/state_ring.cuh"

namespace tandem::cuda {

// Warp w holds rows (key channels) 16w..16w+15, lane l columns 4l..4l+3.
inline constexpr int kRowsPerWarp = 16;

struct HeadState {
  float4 row[kRowsPerWarp];

  __device__ void read(const float* shared) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
      row[r] = reinterpret_cast<const float4*>(shared)[(warp * kRowsPerWarp + r) * 32 + lane];
    }
  }
  __device__ void write(float* shared) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
      reinterpret_cast<float4*>(shared)[(warp * kRowsPerWarp + r) * 32 + lane] = row[r];
    }
  }
};

__device__ inline void add_scaled(float4& sum, float4 x, float factor) {
  sum.x = fmaf(x.x, factor, sum.x);
  sum.y = fmaf(x.y, factor, sum.y);
  sum.z = fmaf(x.z, factor, sum.z);
  sum.w = fmaf(x.w, factor, sum.w);
}

// Partial sums of the eight warps, added in the order of rows.
__device__ inline float4 sum_of_warps(const float4 (&partial)[8][32]) {
  float4 sum = partial[0][threadIdx.x % 32];
  for (int w = 1; w < 8; ++w) add_scaled(sum, partial[w][threadIdx.x % 32], 1.0f);
  return sum;
}

}  // namespace tandem::cuda
