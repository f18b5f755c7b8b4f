#include <algorithm>

#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/kda.h"
#include "kernels/cuda/kda_step.cuh"
#include "kernels/cuda/launch.h"
#include "tensor/cuda/status.h"

namespace tandem::cuda {
namespace {

constexpr int kDim = kKdaHeadDim;

// Two of each: a fast warp may fill the next one while a slow one reads this.
struct FoldShared {
  StateRing ring;
  float key[2][kDim], decay[2][kDim];
  float4 predicted[2][8][32];
};

struct FoldWork {
  const KdaFoldArgs& args;
  FoldShared& shared;
  int steps_done = 0;

  __device__ int per_request() const { return static_cast<int>(args.layers * args.heads); }
  __device__ int items() const { return static_cast<int>(args.batch) * per_request(); }
  __device__ float* state(int item) const {
    return args.states[item / per_request()] +
           static_cast<std::int64_t>(item % per_request()) * kStateFloats;
  }

  // A thread's part of a record, loaded one token ahead of its use.
  struct Part {
    float key_or_decay, beta;
    std::uint32_t value[2];
  };

  __device__ static Part load_part(const KdaRecord& record) {
    const int i = threadIdx.x % kDim;
    Part part;
    part.key_or_decay = threadIdx.x < kDim ? widen(record.key[i]) : record.log_decay[i];
    part.beta = record.beta;
    const auto* values = reinterpret_cast<const std::uint32_t*>(record.value);
    part.value[0] = values[threadIdx.x % 32 * 2];
    part.value[1] = values[threadIdx.x % 32 * 2 + 1];
    return part;
  }

  __device__ void apply(const Part& part, HeadState& state) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = threadIdx.x % kDim;
    const int side = steps_done++ & 1;
    if (threadIdx.x < kDim) {
      shared.key[side][i] = part.key_or_decay;
    } else {
      shared.decay[side][i] = expf(part.key_or_decay);
    }
    compute_barrier();
    float4 predicted = {0, 0, 0, 0};
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
      const float decay = shared.decay[side][warp * kRowsPerWarp + r];
      float4& row = state.row[r];
      row = {row.x * decay, row.y * decay, row.z * decay, row.w * decay};
      add_scaled(predicted, row, shared.key[side][warp * kRowsPerWarp + r]);
    }
    shared.predicted[side][warp][lane] = predicted;
    compute_barrier();
    float4 error = {low_half(part.value[0]), high_half(part.value[0]), low_half(part.value[1]),
                    high_half(part.value[1])};
    add_scaled(error, sum_of_warps(shared.predicted[side]), -1.0f);
    error = {error.x * part.beta, error.y * part.beta, error.z * part.beta, error.w * part.beta};
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
      add_scaled(state.row[r], error, shared.key[side][warp * kRowsPerWarp + r]);
    }
  }

  template <typename Wait>
  __device__ void compute(int item, int, float* stored, Wait wait) {
    const int request = item / per_request();
    const int count = args.counts[request];
    const KdaRecord* records = args.records[request] + item % per_request() * args.window;
    Part next = {};
    if (count > 0) next = load_part(records[0]);
    wait();
    if (count == 0) return;
    HeadState state;
    state.read(stored);
    for (int t = 0; t < count; ++t) {
      const Part part = next;
      if (t + 1 < count) next = load_part(records[t + 1]);
      apply(part, state);
    }
    state.write(stored);
  }
};

__global__ void __launch_bounds__(kRingThreads, 1)
    fold_kernel(const __grid_constant__ KdaFoldArgs args) {
  extern __shared__ __align__(128) unsigned char memory[];
  FoldShared& shared = *reinterpret_cast<FoldShared*>(memory);
  FoldWork work{args, shared};
  walk_states(shared.ring, work);
}

}  // namespace

Result<void> kda_fold(const KdaFoldArgs& args, CudaStreamHandle stream) {
  const std::int64_t items = args.batch * args.layers * args.heads;
  if (items == 0) return {};
  TRY(allow_shared_memory(reinterpret_cast<const void*>(fold_kernel), sizeof(FoldShared)));
  const int multiprocessors = TRY(multiprocessor_count());
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(items, multiprocessors));
  fold_kernel<<<blocks, kRingThreads, sizeof(FoldShared), stream>>>(args);
  return cuda_launched("kda_fold");
}

}  // namespace tandem::cuda
