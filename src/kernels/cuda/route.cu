#include "kernels/cuda/decode_step.h"
#include "kernels/cuda/device_math.cuh"
#include "tensor/cuda/status.h"

namespace tandem::cuda {
namespace {

constexpr int kPerLane = kMaxRoutedExperts / 32;
constexpr unsigned kAll = 0xffffffffu;

// Order as unsigned integers is order as numbers; 0 is below every number and stands for NaN, for
// an expert already chosen and for one past the end.
__device__ std::uint32_t sortable(float x) {
  if (isnan(x)) return 0;
  const std::uint32_t bits = __float_as_uint(x + 0.0f);  // -0 ties with 0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// One warp a row; lane l holds experts l, l + 32, ...
__global__ void __launch_bounds__(32) route_kernel(const __grid_constant__ RouteArgs args) {
  const int lane = threadIdx.x, experts = static_cast<int>(args.experts);
  const int top_k = static_cast<int>(args.top_k);
  const float* logits = args.logits + static_cast<std::int64_t>(blockIdx.x) * experts;
  std::uint32_t key[kPerLane];
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int e = j * 32 + lane;
    // Chosen before NaN rows run out of numbers: a NaN is 1, what does not exist is 0.
    key[j] = e < experts ? max(sortable(sigmoid(logits[e]) + args.bias[e]), 1u) : 0u;
  }
  int mine = 0x7fffffff;  // the expert of choice number `lane`
  for (int n = 0; n < top_k; ++n) {
    std::uint32_t best = 0;
    int at = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (key[j] > best) {
        best = key[j];
        at = j;
      }
    }
    const std::uint32_t largest = __reduce_max_sync(kAll, best);
    const std::uint32_t id = best == largest ? at * 32 + lane : 0x7fffffffu;
    const int chosen = static_cast<int>(__reduce_min_sync(kAll, id));
    if (lane == n) mine = chosen;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      if (chosen == j * 32 + lane) key[j] = 0;
    }
  }
  const float score = lane < top_k ? sigmoid(logits[mine]) : 0;
  int place = 0;
  float sum = 0;
  for (int n = 0; n < top_k; ++n) {
    place += __shfl_sync(kAll, mine, n) < mine;
    sum += __shfl_sync(kAll, score, n);
  }
  if (lane >= top_k) return;
  const std::int64_t out = static_cast<std::int64_t>(blockIdx.x) * top_k + place;
  args.ids[out] = mine;
  args.weights[out] = score * (args.scaling / (sum + 1e-20f));
}

}  // namespace

Result<void> route(const RouteArgs& args, CudaStreamHandle stream) {
  if (args.rows == 0) return {};
  if (args.top_k < 1 || args.top_k > kMaxTopK || args.experts < args.top_k ||
      args.experts > kMaxRoutedExperts) {
    return invalid("route cannot choose {} of {} experts", args.top_k, args.experts);
  }
  route_kernel<<<static_cast<unsigned>(args.rows), 32, 0, stream>>>(args);
  return cuda_launched("route");
}

}  // namespace tandem::cuda
