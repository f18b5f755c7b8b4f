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
// more than the work. After this many polls without a job a worker parks.
constexpr int kSpinPolls = 4000;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

struct ThreadTeam::Impl {
  using Body = std::function<void(std::int64_t, std::int64_t)>;

  std::vector<std::thread> workers;

  // The current loop. Written by the caller before `generation` is raised (release), read after it.
  const Body* body = nullptr;
  std::int64_t count = 0;
  std::int64_t grain = 1;
  std::atomic<std::int64_t> next{0};
  std::atomic<std::uint64_t> generation{0};
  std::atomic<int> running{0};

  // Guards parking only: `generation` is raised under it when a worker may be asleep.
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

  std::uint64_t wait_for_job(std::uint64_t seen) {
    for (int i = 0; i < kSpinPolls; ++i) {
      const std::uint64_t now = generation.load(std::memory_order_acquire);
      if (now != seen) return now;
      pause_briefly();
    }
    std::unique_lock lock(mutex);
    parked.fetch_add(1, std::memory_order_seq_cst);
    wake.wait(lock, [&] { return generation.load(std::memory_order_seq_cst) != seen; });
    parked.fetch_sub(1, std::memory_order_relaxed);
    return generation.load(std::memory_order_acquire);
  }

  void work() {
    std::uint64_t seen = 0;
    for (;;) {
      seen = wait_for_job(seen);
      if (stop.load(std::memory_order_acquire)) return;
      take_ranges();
      running.fetch_sub(1, std::memory_order_release);
    }
  }

  void publish() {
    generation.fetch_add(1, std::memory_order_seq_cst);
    if (parked.load(std::memory_order_seq_cst) > 0) {
      // Taking the lock orders this after a worker's check of the predicate and before its sleep.
      { std::lock_guard lock(mutex); }
      wake.notify_all();
    }
  }
};

ThreadTeam::ThreadTeam(int threads) : impl_(std::make_unique<Impl>()) {
  CHECK(threads >= 1, "a team needs a thread, got {}", threads);
  for (int i = 1; i < threads; ++i) impl_->workers.emplace_back([this] { impl_->work(); });
}

ThreadTeam::~ThreadTeam() {
  impl_->stop.store(true, std::memory_order_release);
  impl_->publish();
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
  impl_->running.store(static_cast<int>(impl_->workers.size()), std::memory_order_relaxed);
  impl_->publish();
  impl_->take_ranges();
  // Every worker must have left the loop before its fields may change.
  while (impl_->running.load(std::memory_order_acquire) != 0) pause_briefly();
}

int default_thread_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace tandem
