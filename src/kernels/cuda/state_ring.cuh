// A thread block walks over many 64 KiB states: while one is computed in shared memory, the next
// ones are on their way in and the last one on its way out. One warp moves, eight compute.
#pragma once

#include <cstdint>

namespace tandem::cuda {

inline constexpr int kStateFloats = 128 * 128;
inline constexpr int kStateBytes = kStateFloats * 4;
inline constexpr int kRingStages = 3;
inline constexpr int kComputeThreads = 256;
inline constexpr int kRingThreads = kComputeThreads + 32;

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void barrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}

__device__ inline void barrier_wait(std::uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

__device__ inline void barrier_arrive(std::uint64_t* barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(
                   shared_address(barrier))
               : "memory");
}

__device__ inline void load_state(float* shared, const float* global, std::uint64_t* barrier) {
  asm volatile(
      "{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(
          shared_address(barrier)),
      "r"(kStateBytes)
      : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(kStateBytes), "r"(shared_address(barrier))
      : "memory");
}

__device__ inline void store_state(float* global, const float* shared) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(shared_address(shared)), "r"(kStateBytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Among the computing threads only.
__device__ inline void compute_barrier() {
  asm volatile("bar.sync 1, %0;" ::"n"(kComputeThreads) : "memory");
}

struct StateRing {
  float states[kRingStages][kStateFloats];
  std::uint64_t loaded[kRingStages];
  std::uint64_t computed[kRingStages];
};

// `Work` has: int items(); float* state(int item); and
//   compute(int item, int turn, float* shared_state, wait): `wait()` returns when the state is
//   there.
// Items are dealt to blocks in turn. Called by all kRingThreads.
template <typename Work>
__device__ void walk_states(StateRing& ring, Work& work) {
  if (threadIdx.x == 0) {
    for (int s = 0; s < kRingStages; ++s) {
      barrier_init(&ring.loaded[s], 1);
      barrier_init(&ring.computed[s], kComputeThreads);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int items = work.items(), first = blockIdx.x, stride = gridDim.x;
  if (threadIdx.x >= kComputeThreads) {
    if (threadIdx.x != kComputeThreads) return;
    for (int n = 0; n < kRingStages && first + n * stride < items; ++n) {
      load_state(ring.states[n], work.state(first + n * stride), &ring.loaded[n]);
    }
    for (int n = 0, item = first; item < items; ++n, item += stride) {
      const int stage = n % kRingStages;
      barrier_wait(&ring.computed[stage], n / kRingStages & 1);
      store_state(work.state(item), ring.states[stage]);
      const int next = item + kRingStages * stride;
      if (next >= items) continue;
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      load_state(ring.states[stage], work.state(next), &ring.loaded[stage]);
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    return;
  }
  for (int n = 0, item = first; item < items; ++n, item += stride) {
    const int stage = n % kRingStages;
    work.compute(item, n, ring.states[stage],
                 [&] { barrier_wait(&ring.loaded[stage], n / kRingStages & 1); });
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier_arrive(&ring.computed[stage]);
  }
}

}  // namespace tandem::cuda
