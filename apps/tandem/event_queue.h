// Hands what the engine's loop thread produces to the thread that prints it.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace tandem {

// Unbounded; one producer, one consumer.
template <typename T>
class EventQueue {
 public:
  void push(T item) {
    {
      std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    filled_.notify_one();
  }

  // Waits for an item.
  T pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return !items_.empty(); });
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  std::mutex mutex_;  // guards items_
  std::condition_variable filled_;
  std::deque<T> items_;
};

}  // namespace tandem
