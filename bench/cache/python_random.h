// The random numbers of Python's `random` module, so that a trace generated here is the same trace
// that a Python script generates from the same seed.
#pragma once

#include <cstdint>
#include <random>

namespace tandem {

// Equal to random.Random(seed) for seeds that fit in 32 bits, in the calls below. Not thread-safe.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint32_t seed);

  double random();                                            // in [0, 1), 53 bits
  std::int64_t randint(std::int64_t low, std::int64_t high);  // both ends included
  std::int64_t below(std::int64_t count);  // an index as random.choice draws it; count < 2^32

 private:
  std::mt19937 words_;
};

}  // namespace tandem
