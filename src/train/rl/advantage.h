// From rewards to advantages, and which groups of samples are worth a step. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::train {

// What a group's centred rewards are divided by.
enum class AdvantageScale {
  kGroupStd,  // GRPO: the group's unbiased standard deviation
  kNone,      // Dr. GRPO: nothing
  kBatchStd,  // Lite PPO: the deviation of all rewards of the batch
};

// Advantages of the samples of all groups, [samples]. `groups[i]` is the group of sample i, any
// numbers. A reward minus its group's mean, divided by (std + 1e-6); where the deviation is 0 or
// there is one sample, not divided. A group of equal rewards gets zeros, exactly.
std::vector<double> group_advantages(std::span<const double> rewards,
                                     std::span<const std::int64_t> groups, AdvantageScale scale);

// Subtracts the mean over tokens and divides by sqrt(variance + 1e-8), with Bessel's correction;
// sample i counts `tokens[i]` times.
void whiten_advantages(std::span<double> advantages, std::span<const std::int64_t> tokens);

// Whether a group teaches anything: its rewards differ (standard deviation above 1e-8). NaN does
// not.
bool group_is_informative(std::span<const double> rewards);

// DAPO's penalty for length: 0 up to max_tokens - cache_tokens, then falling to -1 at max_tokens,
// and -1 beyond. cache_tokens >= 1.
double overlong_penalty(std::int64_t tokens, std::int64_t max_tokens, std::int64_t cache_tokens);

}  // namespace tandem::train
