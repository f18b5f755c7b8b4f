// Time as a dependency, so that tests choose it.
#pragma once

#include <chrono>

namespace tandem {

using TimePoint = std::chrono::steady_clock::time_point;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

// The monotonic clock of the machine.
class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

inline double milliseconds(TimePoint begin, TimePoint end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

}  // namespace tandem
