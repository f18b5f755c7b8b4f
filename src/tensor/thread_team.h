// A fixed team of worker threads for data-parallel loops inside one step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tandem {

// Runs the iterations of a loop on `threads()` threads, the caller among them.
//
// Owner: one step loop; parallel_for is not re-entrant and called by one thread at a time. Which
// thread runs an iteration is unspecified, so an iteration must compute its outputs alone: results
// then do not depend on the number of threads.
class ThreadTeam {
 public:
  // threads >= 1; 1 starts no thread.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int threads() const;

  // Calls body(begin, end) over disjoint ranges that cover [0, count), each of at least `grain`
  // iterations but the last. Returns when all have run.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t begin, std::int64_t end)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The number of hardware threads that this process may use; at least 1.
int default_thread_count();

}  // namespace tandem
