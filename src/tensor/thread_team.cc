#include "tensor/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem {
namespace {

// A fan-out inside a step follows the last one within microseconds; sleeping in between would cost
// more than the work. After this many polls without a loop a worker parks, and a caller gives way.
constexpr int kSpinPolls = 4000;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// The gate of the current loop, one word: generation << 32 | closed bit | workers inside.
constexpr std::uint64_t kGeneration = std::uint64_t{1} << 32;
constexpr std::uint64_t kClosed = std::uint64_t{1} << 31;
constexpr std::uint64_t kInside = kClosed - 1;

std::uint64_t generation_of(std::uint64_t gate) { return gate / kGeneration; }

}  // namespace

// A worker takes part in a loop only if it enters the gate before the caller closes it. The caller
// works too, and waits only for workers inside: on a busy machine a worker that gets no processor
// is not missed.
struct ThreadTeam::Impl {
  using Body = std::function<void(std::int64_t, std::int64_t)>;

  std::vector<std::thread> workers;

  // The current loop. Written by the caller while the gate is closed and empty, read by those
  // inside.
  const Body* body = nullptr;
  std::int64_t count = 0;
  std::int64_t grain = 1;
  std::atomic<std::int64_t> next{0};
  std::atomic<std::uint64_t> gate{kClosed};

  // Guards parking only: the gate opens under it when a worker may be asleep.
  std::mutex mutex;
  std::condition_variable wake;
  std::atomic<int> parked{0};
  std::atomic<bool> stop{false};

  void take_ranges() {
    for (;;) {
      const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      (*body)(begin, std::min(begin + grain, count));
    }
  }

  // Waits until the gate's generation is not `seen`; returns the new one.
  std::uint64_t wait_for_loop(std::uint64_t seen) {
    for (int i = 0; i < kSpinPolls; ++i) {
      const std::uint64_t now = generation_of(gate.load(std::memory_order_acquire));
      if (now != seen) return now;
      pause_briefly();
    }
    std::unique_lock lock(mutex);
    parked.fetch_add(1, std::memory_order_seq_cst);
    wake.wait(lock, [&] { return generation_of(gate.load(std::memory_order_seq_cst)) != seen; });
    parked.fetch_sub(1, std::memory_order_relaxed);
    return generation_of(gate.load(std::memory_order_acquire));
  }

  bool enter(std::uint64_t generation) {
    std::uint64_t now = gate.load(std::memory_order_relaxed);
    while (generation_of(now) == generation && (now & kClosed) == 0) {
      if (gate.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }

  void work() {
    std::uint64_t seen = 0;
    for (;;) {
      seen = wait_for_loop(seen);
      if (stop.load(std::memory_order_acquire)) return;
      if (!enter(seen)) continue;
      take_ranges();
      gate.fetch_sub(1, std::memory_order_release);
    }
  }

  // Opens the gate of a new loop.
  void open() {
    const std::uint64_t before = gate.load(std::memory_order_relaxed);
    gate.store((generation_of(before) + 1) * kGeneration, std::memory_order_seq_cst);
    if (parked.load(std::memory_order_seq_cst) > 0) {
      // Taking the lock orders this after a worker's check of the predicate and before its sleep.
      { std::lock_guard lock(mutex); }
      wake.notify_all();
    }
  }

  // Closes it and waits for those inside.
  void close() {
    gate.fetch_or(kClosed, std::memory_order_acq_rel);
    for (int i = 0; (gate.load(std::memory_order_acquire) & kInside) != 0; ++i) {
      if (i < kSpinPolls) {
        pause_briefly();
      } else {
        std::this_thread::yield();
      }
    }
  }
};

ThreadTeam::ThreadTeam(int threads) : impl_(std::make_unique<Impl>()) {
  CHECK(threads >= 1, "a team needs a thread, got {}", threads);
  for (int i = 1; i < threads; ++i) impl_->workers.emplace_back([this] { impl_->work(); });
}

ThreadTeam::~ThreadTeam() {
  impl_->stop.store(true, std::memory_order_release);
  impl_->open();
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadTeam::threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadTeam::parallel_for(std::int64_t count, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (impl_->workers.empty() || count <= grain) {
    body(0, count);
    return;
  }
  impl_->body = &body;
  impl_->count = count;
  impl_->grain = grain;
  impl_->next.store(0, std::memory_order_relaxed);
  impl_->open();
  impl_->take_ranges();
  impl_->close();
}

int default_thread_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace tandem
