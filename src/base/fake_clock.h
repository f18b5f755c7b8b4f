// A clock for tests that moves when it is told to.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace tandem {

// Not thread-safe: advance it while nobody asks.
class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(std::chrono::duration<double> by) {
    now_ += std::chrono::round<TimePoint::duration>(by);
  }

 private:
  // Not zero, so that a time which was never set does not look like now.
  TimePoint now_{std::chrono::hours(1)};
};

}  // namespace tandem
