#include "train/rl/advantage.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace tandem::train {
namespace {

constexpr double kStdFloor = 1e-6;
constexpr double kSameReward = 1e-8;

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

// Unbiased; 0 for a single value.
double deviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

bool all_equal(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == values.front(); });
}

}  // namespace

std::vector<double> group_advantages(std::span<const double> rewards,
                                     std::span<const std::int64_t> groups, AdvantageScale scale) {
  CHECK(rewards.size() == groups.size(), "{} rewards of {} samples", rewards.size(), groups.size());
  std::map<std::int64_t, std::vector<std::size_t>> members;
  for (std::size_t i = 0; i < groups.size(); ++i) members[groups[i]].push_back(i);
  const double batch_deviation = deviation(rewards);
  std::vector<double> advantages(rewards.size());
  for (const auto& [group, samples] : members) {
    std::vector<double> own;
    for (const std::size_t i : samples) own.push_back(rewards[i]);
    // The mean of equal numbers may be off by a rounding; their advantages must not be.
    if (all_equal(own)) continue;
    const double mean = mean_of(own);
    const double size = scale == AdvantageScale::kGroupStd ? deviation(own) : batch_deviation;
    const bool divide = scale != AdvantageScale::kNone && size > 0;
    for (const std::size_t i : samples) {
      advantages[i] = (rewards[i] - mean) / (divide ? size + kStdFloor : 1.0);
    }
  }
  return advantages;
}

void whiten_advantages(std::span<double> advantages, std::span<const std::int64_t> tokens) {
  CHECK(advantages.size() == tokens.size(), "{} advantages, {} lengths", advantages.size(),
        tokens.size());
  double count = 0, sum = 0;
  for (std::size_t i = 0; i < advantages.size(); ++i) {
    count += static_cast<double>(tokens[i]);
    sum += static_cast<double>(tokens[i]) * advantages[i];
  }
  if (count < 2) return;
  const double mean = sum / count;
  double squares = 0;
  for (std::size_t i = 0; i < advantages.size(); ++i) {
    squares += static_cast<double>(tokens[i]) * (advantages[i] - mean) * (advantages[i] - mean);
  }
  const double scale = 1 / std::sqrt(squares / (count - 1) + 1e-8);
  for (double& a : advantages) a = (a - mean) * scale;
}

bool group_is_informative(std::span<const double> rewards) {
  return deviation(rewards) > kSameReward;
}

double overlong_penalty(std::int64_t tokens, std::int64_t max_tokens, std::int64_t cache_tokens) {
  const std::int64_t over = tokens - (max_tokens - cache_tokens);
  return -std::clamp(static_cast<double>(over) / static_cast<double>(cache_tokens), 0.0, 1.0);
}

}  // namespace tandem::train
