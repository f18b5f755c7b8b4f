// When requests arrive that nobody coordinates.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace tandem::loadgen {

// A Poisson process: independent, exponentially distributed gaps. The same seed gives the same
// times anywhere. Single owner.
class PoissonArrivals {
 public:
  // `per_second` > 0.
  PoissonArrivals(double per_second, std::uint64_t seed) : per_second_(per_second), seed_(seed) {}

  // Seconds from the start to the next arrival; never decreases.
  double next_s() {
    const double uniform = philox_uniform(seed_, count_++);  // in [0, 1): the log is finite
    at_s_ -= std::log1p(-uniform) / per_second_;
    return at_s_;
  }

 private:
  double per_second_;
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
  double at_s_ = 0;
};

}  // namespace tandem::loadgen
