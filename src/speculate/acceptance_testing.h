// A tiny language and a tiny draft of it, and every way that a block can go: for exact tests.
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "base/philox.h"
#include "speculate/chance.h"

namespace tandem {

using Path = std::vector<TokenId>;

// Distributions over `vocab` tokens, one for every path; some tokens have probability 0 as after a
// truncation. A pure function of seed and path.
struct TinyLanguage {
  std::uint64_t seed = 0;
  std::size_t vocab = 3;

  std::vector<double> after(std::span<const TokenId> path) const {
    std::uint64_t hash = 17;
    for (const TokenId token : path) hash = hash * 31 + static_cast<std::uint64_t>(token) + 1;
    std::vector<double> p(vocab);
    double sum = 0;
    for (std::size_t x = 0; x < vocab; ++x) {
      const double u = philox_uniform(seed, hash * 64 + x);
      sum += p[x] = u < 0.15 ? 0.0 : -std::log(1 - u);
    }
    if (sum == 0) sum = p[0] = 1;
    for (double& value : p) value /= sum;
    return p;
  }

  double probability(std::span<const TokenId> path) const {
    double product = 1;
    for (std::size_t i = 0; i < path.size(); ++i) {
      product *= after(path.first(i))[static_cast<std::size_t>(path[i])];
    }
    return product;
  }
};

// Takes every branch in turn: run the code, see `probability()` of the way it took, until next()
// says that all were taken.
class EveryChance final : public Chance {
 public:
  bool happens(std::int64_t, double probability) override {
    const double both[] = {probability, 1 - probability};
    return pick(both) == 0;
  }
  std::size_t pick(std::span<const double> weights) override {
    if (at_ == choices_.size()) choices_.push_back(0);
    double sum = 0;
    for (const double weight : weights) sum += weight;
    counts_.resize(at_ + 1);
    counts_[at_] = weights.size();
    probability_ *= weights[choices_[at_]] / sum;
    return choices_[at_++];
  }

  double probability() const { return probability_; }

  bool next() {
    choices_.resize(at_);
    at_ = 0;
    probability_ = 1;
    while (!choices_.empty() && choices_.back() + 1 == counts_[choices_.size() - 1]) {
      choices_.pop_back();
    }
    if (choices_.empty()) return false;
    ++choices_.back();
    return true;
  }

 private:
  std::vector<std::size_t> choices_, counts_;
  std::size_t at_ = 0;
  double probability_ = 1;
};

// All paths of `length` tokens.
inline std::vector<Path> all_paths(std::size_t vocab, std::size_t length) {
  std::vector<Path> paths = {{}};
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<Path> longer;
    for (const Path& path : paths) {
      for (std::size_t x = 0; x < vocab; ++x) {
        longer.push_back(path);
        longer.back().push_back(static_cast<TokenId>(x));
      }
    }
    paths = std::move(longer);
  }
  return paths;
}

}  // namespace tandem
