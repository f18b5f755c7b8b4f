// The policy-gradient objectives: GRPO, DAPO and GSPO, KL to a reference, corrections for a rollout
// policy that differs from the trainer's. Pure functions of log-probs.
//
// Three policies score a sample's tokens: `policy` as it is now, `old` as it was when the batch
// began, scored by the trainer, and `behaviour` that drew the token, scored by the engine. All
// log-probs are at one sampling temperature over the full vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "train/ops/head.h"

namespace tandem::train {

// How a loss is averaged over the batch. Said once, for the whole batch: see token_weights.
enum class LossAggregation {
  kSampleMean,      // mean over samples of each one's mean over tokens (GRPO)
  kTokenMean,       // mean over all tokens of the batch (DAPO)
  kConstant,        // sum over tokens divided by max_tokens * samples (Dr. GRPO)
  kPromptTokenMean  // mean over prompts of the mean over the tokens of its group
};

// The weight of every token of each sample in the batch's loss, [samples]: loss = sum over samples
// and unmasked tokens of weight * token loss. Computed once over the whole batch, before it is cut
// into micro-batches, so that neither accumulation nor the number of workers enters again.
// `tokens[i]` counts the unmasked tokens of sample i; a sample without any weighs nothing but still
// counts as one. `max_tokens` is for kConstant.
std::vector<double> token_weights(LossAggregation aggregation, std::span<const std::int64_t> tokens,
                                  std::span<const std::int64_t> groups, std::int64_t max_tokens);

// What makes up for behaviour != old, from w = exp(old - behaviour), clamped to exp(+-20).
enum class Correction {
  kNone,
  kTruncate,  // TIS: w cut to [low, high]
  kIcePop,    // w where it lies in [low, high], else 0
  kMask       // MIS: w, and tokens outside [low, high] leave the loss
};
enum class CorrectionLevel {
  kToken,
  kSequence,  // the product over a sample's tokens
  kGeometric  // its geometric mean
};
struct CorrectionConfig {
  Correction kind = Correction::kNone;
  CorrectionLevel level = CorrectionLevel::kToken;
  double low = 0;
  double high = 2;
  // A sample with any token below this weight leaves the loss. 0: none does.
  double veto_below = 0;
};

// One sample's tokens. Spans are of one length; `mask` may be empty: all ones.
struct SampleScores {
  std::span<const double> policy;
  std::span<const double> old;
  std::span<const double> behaviour;  // for corrections and mismatch alone
  std::span<const double> reference;  // for the KL term alone
  std::span<const std::uint8_t> mask;
  double advantage = 0;

  bool counts(std::size_t t) const { return mask.empty() || mask[t] != 0; }
  std::int64_t tokens() const;
};

// Factors [tokens] on a sample's token losses; masked tokens keep theirs, which nobody reads. A
// rejected token's factor is 0 while the denominators of token_weights stay as they were.
std::vector<double> correction_factors(const CorrectionConfig& config, const SampleScores& sample);

enum class KlEstimator {
  kK1,          // r = policy - reference
  kK2,          // r^2 / 2
  kK3,          // exp(-r) - 1 + r
  kLowVariance  // k3 of r clamped to +-20, the result clamped to +-10
};

struct ObjectiveConfig {
  enum class Ratio { kToken, kSequence };
  Ratio ratio = Ratio::kToken;  // kSequence is GSPO: one ratio a sample, its geometric mean
  double clip_low = 0.2;
  double clip_high = 0.2;  // above clip_low: DAPO's clip-higher
  std::optional<double> dual_clip =
      {};  // c > 1: the loss of a bad sample's token is at most -c * A
  double kl_coefficient = 0;
  KlEstimator kl = KlEstimator::kK3;
  bool unbiased_kl = false;        // KL weighted by the ratio policy / old
  double entropy_coefficient = 0;  // subtracts entropy from the loss
  // Off-policy sequence mask: a sample with A < 0 whose mean(old - policy) exceeds it is left out.
  std::optional<double> off_policy_delta = {};
};

// Sums over a sample's tokens, for metrics of a batch.
struct ObjectiveSums {
  double loss = 0;              // weighted, KL and entropy included
  double kl = 0;                // weighted, without its coefficient
  std::int64_t tokens = 0;      // unmasked
  std::int64_t clipped = 0;     // tokens where the clipped branch is the larger loss
  std::int64_t left_out = 0;    // tokens of a sample left out by off_policy_delta
  double old_minus_policy = 0;  // sum of log-ratios
};

struct SampleObjective {
  ObjectiveSums sums;
  std::vector<TokenScoreGradient> gradients;  // dLoss by each token's log-prob and entropy
};

// `weight` is the sample's from token_weights, `factors` those of correction_factors (empty: ones),
// `entropy` [tokens] is read where the coefficient is not zero. Log-ratios that are NaN count as 0
// and have no gradient.
SampleObjective sample_objective(const ObjectiveConfig& config, const SampleScores& sample,
                                 double weight, std::span<const double> factors,
                                 std::span<const double> entropy);

// How far trainer and engine are apart on the same tokens at the same version.
struct PolicyMismatch {
  std::int64_t tokens = 0;
  double abs_difference = 0;  // sum of |old - behaviour|
  double max_difference = 0;
  double kl = 0;                              // sum of k3 of behaviour || old
  double weight_sum = 0, weight_squares = 0;  // of exp(old - behaviour)

  void add(const SampleScores& sample);
  double mean_abs_difference() const;
  double mean_kl() const;
  double effective_sample_share() const;  // (sum w)^2 / (N sum w^2)
};

}  // namespace tandem::train
