// The random decisions of speculation, apart from what decides by them, so that a test can take
// every branch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem {

// What a draw is for. Draws for different purposes are independent, and of those of the sampler.
enum class DrawPurpose : std::uint32_t { kAccept = 1, kBonus = 2, kDraft = 3 };

// Uniform in [0, 1), a pure function: of one request's `seed`, of the index in its answer where the
// block of drafts starts, and of the place in the block. Not of the index of the token itself: a
// block that is cut short would leave coins that its successor sees a second time.
double block_uniform(std::uint64_t seed, std::uint64_t block_start, DrawPurpose purpose,
                     std::int64_t place);

// Index of a weight, in proportion to the weights, for a uniform number. Weights are finite, >= 0,
// and not all 0.
std::size_t pick_weighted(std::span<const double> weights, double uniform);

// The decisions over one block.
class Chance {
 public:
  virtual ~Chance() = default;
  // An event of probability `probability`, independent of those at other places.
  virtual bool happens(std::int64_t place, double probability) = 0;
  // An index in proportion to `weights`. Called at most once a block.
  virtual std::size_t pick(std::span<const double> weights) = 0;
};

// Decides by counters: the same block of the same request goes the same way beside any neighbours.
class SeededChance final : public Chance {
 public:
  SeededChance(std::uint64_t seed, std::uint64_t block_start)
      : seed_(seed), block_start_(block_start) {}

  bool happens(std::int64_t place, double probability) override;
  std::size_t pick(std::span<const double> weights) override;

 private:
  std::uint64_t seed_;
  std::uint64_t block_start_;
};

}  // namespace tandem
