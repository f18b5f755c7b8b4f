#include "speculate/chance.h"

#include <numeric>

#include "base/check.h"
#include "base/philox.h"

namespace tandem {

double block_uniform(std::uint64_t seed, std::uint64_t block_start, DrawPurpose purpose,
                     std::int64_t place) {
  // The sampler's own draws have 0 in the third word, a purpose has not.
  const auto bits = philox(
      seed, {static_cast<std::uint32_t>(block_start), static_cast<std::uint32_t>(block_start >> 32),
             static_cast<std::uint32_t>(purpose), static_cast<std::uint32_t>(place)});
  const std::uint64_t wide = (std::uint64_t{bits[0]} << 32) | bits[1];
  return static_cast<double>(wide >> 11) * 0x1p-53;
}

std::size_t pick_weighted(std::span<const double> weights, double uniform) {
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t last = weights.size();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = i;
    left -= weights[i];
    if (left < 0) return i;
  }
  CHECK(last < weights.size(), "no weight above 0 among {}", weights.size());
  return last;  // rounding only
}

bool SeededChance::happens(std::int64_t place, double probability) {
  return block_uniform(seed_, block_start_, DrawPurpose::kAccept, place) < probability;
}

std::size_t SeededChance::pick(std::span<const double> weights) {
  return pick_weighted(weights, block_uniform(seed_, block_start_, DrawPurpose::kBonus, 0));
}

}  // namespace tandem
