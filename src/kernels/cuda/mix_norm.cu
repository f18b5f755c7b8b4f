#include "kernels/cuda/decode_step.h"
#include "kernels/cuda/device_math.cuh"
#include "tensor/cuda/status.h"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 1024;  // eight elements each
constexpr int kWarps = kThreads / 32;

struct Eight {
  float value[8];
};

__device__ Eight unpack(uint4 packed) {
  return {{low_half(packed.x), high_half(packed.x), low_half(packed.y), high_half(packed.y),
           low_half(packed.z), high_half(packed.z), low_half(packed.w), high_half(packed.w)}};
}

// A warp's shares of a sum over the block, added by the same butterfly in every warp.
__device__ float sum_of_shares(const float* shares) {
  return warp_sum(shares[threadIdx.x % kWarps]);
}

template <int kStreams>
__global__ void __launch_bounds__(kThreads, 1)
    mix_norm_kernel(const __grid_constant__ MixNormArgs args) {
  __shared__ float dots[kStreams][kWarps], squares[kStreams][kWarps], mixed_squares[kWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int64_t chunk = blockIdx.x * (args.hidden / 8) + threadIdx.x;
  const bool inside = threadIdx.x < args.hidden / 8;
  const int first = threadIdx.x * 8;
  uint4 rows[kStreams] = {};
  Eight query = {};
  if (inside) {
#pragma unroll
    for (int j = 0; j < kStreams; ++j) {
      rows[j] = reinterpret_cast<const uint4*>(args.stream[j])[chunk];
    }
    if (kStreams > 1) {
      for (int i = 0; i < 8; ++i) query.value[i] = args.query[first + i];
    }
  }
  float weight[kStreams];
  if constexpr (kStreams > 1) {
#pragma unroll
    for (int j = 0; j < kStreams; ++j) {
      const Eight row = unpack(rows[j]);
      float dot = 0, square = 0;
      for (int i = 0; i < 8; ++i) {
        dot = fmaf(row.value[i], query.value[i], dot);
        square = fmaf(row.value[i], row.value[i], square);
      }
      dot = warp_sum(dot);
      square = warp_sum(square);
      if (lane == 0) {
        dots[j][warp] = dot;
        squares[j][warp] = square;
      }
    }
    __syncthreads();
    float largest = -INFINITY, sum = 0;
#pragma unroll
    for (int j = 0; j < kStreams; ++j) {
      const float mean = sum_of_shares(squares[j]) / static_cast<float>(args.hidden);
      weight[j] = sum_of_shares(dots[j]) * rsqrtf(mean + args.mix_eps);
      largest = fmaxf(largest, weight[j]);
    }
#pragma unroll
    for (int j = 0; j < kStreams; ++j) sum += weight[j] = expf(weight[j] - largest);
#pragma unroll
    for (int j = 0; j < kStreams; ++j) weight[j] /= sum;
  } else {
    weight[0] = 1;
  }
  Eight mixed = {};
#pragma unroll
  for (int j = 0; j < kStreams; ++j) {
    const Eight row = unpack(rows[j]);
    for (int i = 0; i < 8; ++i) mixed.value[i] = fmaf(weight[j], row.value[i], mixed.value[i]);
  }
  float square = 0;
  for (int i = 0; i < 8; ++i) square = fmaf(mixed.value[i], mixed.value[i], square);
  square = warp_sum(square);
  if (lane == 0) mixed_squares[warp] = square;
  __syncthreads();
  const float mean = sum_of_shares(mixed_squares) / static_cast<float>(args.hidden);
  const float scale = rsqrtf(mean + args.norm_eps);
  if (!inside) return;
  for (int i = 0; i < 8; ++i) mixed.value[i] *= scale * args.norm_weight[first + i];
  const float* y = mixed.value;
  reinterpret_cast<uint4*>(args.y)[chunk] = {narrow_pair(y[0], y[1]), narrow_pair(y[2], y[3]),
                                             narrow_pair(y[4], y[5]), narrow_pair(y[6], y[7])};
}

template <int kStreams>
Result<void> launch(const MixNormArgs& args, CudaStreamHandle stream) {
  if constexpr (kStreams > kMaxMixRows) {
    return invalid("mix_norm takes 1 to {} streams, not {}", kMaxMixRows, args.streams);
  } else {
    if (args.streams != kStreams) return launch<kStreams + 1>(args, stream);
    mix_norm_kernel<kStreams><<<static_cast<unsigned>(args.rows), kThreads, 0, stream>>>(args);
    return cuda_launched("mix_norm");
  }
}

}  // namespace

Result<void> mix_norm(const MixNormArgs& args, CudaStreamHandle stream) {
  if (args.rows == 0) return {};
  if (args.hidden % 8 != 0 || args.hidden > 8 * kThreads) {
    return invalid("mix_norm takes rows of a multiple of 8 up to {}, not {}", 8 * kThreads,
                   args.hidden);
  }
  return launch<1>(args, stream);
}

}  // namespace tandem::cuda
