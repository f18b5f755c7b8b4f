#include <algorithm>

#include "kernels/cuda/decode_step.h"
#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/launch.h"
#include "tensor/cuda/status.h"

namespace tandem::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kOutputsPerWarp = 2;
constexpr int kAhead = 4;  // loads of a weight row in flight

__device__ float dot8(uint4 w, uint4 x, float sum) {
  const std::uint32_t a[4] = {w.x, w.y, w.z, w.w}, b[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(low_half(a[i]), low_half(b[i]), sum);
    sum = fmaf(high_half(a[i]), high_half(b[i]), sum);
  }
  return sum;
}

// Weights pass once: they are not kept in L1.
__device__ uint4 load_once(const uint4* address) {
  uint4 v;
  asm("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(address));
  return v;
}

template <int kRows>
__global__ void __launch_bounds__(kWarps * 32)
    linear_kernel(const __grid_constant__ SkinnyLinearArgs args) {
  extern __shared__ uint4 x[];  // [kRows][inputs / 8]
  const int chunks = static_cast<int>(args.inputs / 8);
  for (int i = threadIdx.x; i < kRows * chunks; i += kWarps * 32) {
    x[i] = reinterpret_cast<const uint4*>(args.x)[i];
  }
  __syncthreads();
  const int lane = threadIdx.x % 32;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kWarps;
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  for (std::int64_t first = warp * kOutputsPerWarp; first < args.outputs;
       first += warps * kOutputsPerWarp) {
    const uint4* w[kOutputsPerWarp];
    float sum[kOutputsPerWarp][kRows] = {};
    for (int o = 0; o < kOutputsPerWarp; ++o) {
      const std::int64_t output = min(first + o, args.outputs - 1);
      w[o] = reinterpret_cast<const uint4*>(args.w + output * args.inputs);
    }
    int c = lane;
    for (; c + (kAhead - 1) * 32 < chunks; c += kAhead * 32) {
      uint4 loaded[kAhead][kOutputsPerWarp];
#pragma unroll
      for (int a = 0; a < kAhead; ++a)
#pragma unroll
        for (int o = 0; o < kOutputsPerWarp; ++o) loaded[a][o] = load_once(w[o] + c + a * 32);
#pragma unroll
      for (int a = 0; a < kAhead; ++a)
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const uint4 input = x[r * chunks + c + a * 32];
#pragma unroll
          for (int o = 0; o < kOutputsPerWarp; ++o)
            sum[o][r] = dot8(loaded[a][o], input, sum[o][r]);
        }
    }
    for (; c < chunks; c += 32)
#pragma unroll
      for (int o = 0; o < kOutputsPerWarp; ++o) {
        const uint4 loaded = load_once(w[o] + c);
#pragma unroll
        for (int r = 0; r < kRows; ++r) sum[o][r] = dot8(loaded, x[r * chunks + c], sum[o][r]);
      }
#pragma unroll
    for (int o = 0; o < kOutputsPerWarp; ++o)
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float total = warp_sum(sum[o][r]);
        if (lane == 0 && first + o < args.outputs) args.y[r * args.outputs + first + o] = total;
      }
  }
}

template <int kRows>
Result<void> launch(const SkinnyLinearArgs& args, CudaStreamHandle stream) {
  const auto shared = static_cast<std::size_t>(kRows * args.inputs) * sizeof(BF16);
  TRY(allow_shared_memory(reinterpret_cast<const void*>(linear_kernel<kRows>), shared));
  const int multiprocessors = TRY(multiprocessor_count());
  const std::int64_t tiles =
      (args.outputs + kWarps * kOutputsPerWarp - 1) / (kWarps * kOutputsPerWarp);
  const auto resident =
      std::clamp<std::int64_t>(200 * 1024 / static_cast<std::int64_t>(shared), 1, 6);
  const auto blocks = static_cast<unsigned>(std::min(tiles, resident * multiprocessors));
  linear_kernel<kRows><<<blocks, kWarps * 32, shared, stream>>>(args);
  return cuda_launched("skinny_linear");
}

}  // namespace

Result<void> skinny_linear(const SkinnyLinearArgs& args, CudaStreamHandle stream) {
  if (args.outputs == 0) return {};
  switch (args.rows) {
    case 1:
      return launch<1>(args, stream);
    case 2:
      return launch<2>(args, stream);
    case 3:
      return launch<3>(args, stream);
    case 4:
      return launch<4>(args, stream);
    case 5:
      return launch<5>(args, stream);
    case 6:
      return launch<6>(args, stream);
    case 7:
      return launch<7>(args, stream);
    case 8:
      return launch<8>(args, stream);
  }
  return invalid("skinny_linear takes 1 to 8 rows, not {}", args.rows);
}

}  // namespace tandem::cuda
