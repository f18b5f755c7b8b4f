// Threads for work that a loop must not wait for.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {

// Thread-safe. Jobs begin in order; the destructor runs those that are left.
class WorkerPool {
 public:
  using Job = std::packaged_task<void()>;

  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void run(Job job);
  // False, and nothing done, if `max_waiting` jobs have not begun yet.
  bool try_run(Job job, std::size_t max_waiting);

 private:
  void work();

  std::mutex mutex_;  // guards jobs_ and closing_
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem
