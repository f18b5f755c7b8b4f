// The objectives' values by hand, their gradients by central differences, the specification's
// invariants (rl.md, section 11) and public bugs (section 13).
#include "train/rl/objective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "train/ops/gradient_check.h"
#include "train/rl/advantage.h"

namespace tandem::train {
namespace {

// A sample that owns its scores.
struct OwnedSample {
  std::vector<double> policy, old, behaviour, reference, entropy;
  std::vector<std::uint8_t> mask;
  double advantage = 0;

  static OwnedSample random(std::uint64_t seed, std::size_t tokens, double advantage) {
    RandomNumbers numbers(seed);
    OwnedSample s;
    s.advantage = advantage;
    for (std::size_t t = 0; t < tokens; ++t) {
      s.old.push_back(-std::fabs(numbers.next()));
      s.policy.push_back(s.old[t] + 0.3 * numbers.next());
      s.behaviour.push_back(s.old[t] + 0.3 * numbers.next());
      s.reference.push_back(s.old[t] + 0.3 * numbers.next());
      s.entropy.push_back(std::fabs(numbers.next()));
      s.mask.push_back(t % 4 == 2 ? 0 : 1);
    }
    return s;
  }
  SampleScores scores() const { return {policy, old, behaviour, reference, mask, advantage}; }
};

SampleObjective objective(const ObjectiveConfig& config, const OwnedSample& sample,
                          double weight = 0.125, std::span<const double> factors = {}) {
  return sample_objective(config, sample.scores(), weight, factors, sample.entropy);
}

std::vector<double> log_prob_gradients(const SampleObjective& made) {
  std::vector<double> gradients;
  for (const TokenScoreGradient& g : made.gradients) gradients.push_back(g.log_prob);
  return gradients;
}

// ---- values

TEST(Objective, clips_on_the_side_that_would_gain) {
  const ObjectiveConfig config{.clip_low = 0.2, .clip_high = 0.28};
  struct Case {
    double ratio, advantage, loss, slope;  // slope by the log-prob
    int clipped;
  };
  for (const Case& c :
       {Case{1.0, 2, -2, -2, 0}, Case{1.5, 2, -2 * 1.28, 0, 1}, Case{0.5, 2, -1, -1, 0},
        Case{1.5, -2, 3, 3, 0}, Case{0.5, -2, 1.6, 0, 1}, Case{1.27, 1, -1.27, -1.27, 0}}) {
    OwnedSample s;
    s.policy = {std::log(c.ratio) - 1};
    s.old = {-1};
    s.advantage = c.advantage;
    const auto made = objective(config, s, 1);
    EXPECT_NEAR(made.sums.loss, c.loss, 1e-12) << c.ratio << " " << c.advantage;
    EXPECT_NEAR(made.gradients[0].log_prob, c.slope, 1e-12) << c.ratio << " " << c.advantage;
    EXPECT_EQ(made.sums.clipped, c.clipped);
  }
}

TEST(Objective, dual_clip_bounds_what_a_bad_sample_can_cost) {
  OwnedSample s;
  s.policy = {std::log(7.0)};
  s.old = {0};
  s.advantage = -2;
  const auto made = objective({.dual_clip = 3}, s, 1);
  EXPECT_NEAR(made.sums.loss, 6, 1e-12);
  EXPECT_EQ(made.gradients[0].log_prob, 0);
  EXPECT_NEAR(objective({}, s, 1).sums.loss, 14, 1e-12);
}

TEST(Objective, gspo_has_one_ratio_a_sample) {
  OwnedSample s;
  s.policy = {-1.0, -2.0, -3.0};
  s.old = {-1.1, -2.4, -2.9};
  s.mask = {1, 1, 0};
  s.advantage = 0.5;
  const ObjectiveConfig config{
      .ratio = ObjectiveConfig::Ratio::kSequence, .clip_low = 1, .clip_high = 1};
  const auto made = objective(config, s, 0.5);  // sample-mean of one sample: 1 / 2 tokens
  const double ratio = std::exp((0.1 + 0.4) / 2);
  EXPECT_NEAR(made.sums.loss, -0.5 * ratio, 1e-12);
  // rl.md: A s_i / L_i for each token
  EXPECT_NEAR(made.gradients[0].log_prob, -0.5 * ratio / 2, 1e-12);
  EXPECT_EQ(made.gradients[2].log_prob, 0);
}

// ---- gradients

TEST(Objective, gradients_against_differences) {
  std::vector<ObjectiveConfig> configs = {
      {},
      {.clip_low = 0.05, .clip_high = 0.4},
      {.dual_clip = 1.1},
      {.ratio = ObjectiveConfig::Ratio::kSequence, .clip_low = 0.5, .clip_high = 0.5}};
  for (const KlEstimator kl :
       {KlEstimator::kK1, KlEstimator::kK2, KlEstimator::kK3, KlEstimator::kLowVariance}) {
    configs.push_back({.kl_coefficient = 0.3, .kl = kl, .entropy_coefficient = 0.2});
    configs.push_back({.kl_coefficient = 0.3, .kl = kl, .unbiased_kl = true});
  }
  for (std::size_t i = 0; i < configs.size(); ++i) {
    for (const double advantage : {1.3, -0.7}) {
      OwnedSample s = OwnedSample::random(i, 9, advantage);
      const std::vector<double> factors = {1, 0.5, 2, 1.5, 0, 1, 1, 0.1, 3};
      const auto loss = [&] { return objective(configs[i], s, 0.125, factors).sums.loss; };
      const auto made = objective(configs[i], s, 0.125, factors);
      const auto analytic = log_prob_gradients(made);
      EXPECT_LE(gradient_error(s.policy, analytic, loss, 1e-6), kGradientBound) << i;
      if (configs[i].entropy_coefficient == 0) continue;
      std::vector<double> by_entropy;
      for (const TokenScoreGradient& g : made.gradients) by_entropy.push_back(g.entropy);
      EXPECT_LE(gradient_error(s.entropy, by_entropy, loss, 1e-4), kGradientBound) << i;
    }
  }
}

TEST(Objective, kl_is_zero_at_the_reference_and_k3_never_negative) {
  OwnedSample s = OwnedSample::random(3, 8, 0);
  const ObjectiveConfig config{.kl_coefficient = 1};
  EXPECT_GT(objective(config, s).sums.kl, 0);
  s.reference = s.policy;
  EXPECT_EQ(objective(config, s).sums.kl, 0);
  for (const double g : log_prob_gradients(objective(config, s))) EXPECT_EQ(g, 0);
}

TEST(Objective, a_ratio_that_is_not_a_number_teaches_nothing) {
  OwnedSample s = OwnedSample::random(3, 4, 1);
  s.policy[0] = NAN;
  s.policy[1] = s.old[1] + 50;
  const auto made = objective({.clip_low = 0.2, .clip_high = 1e12}, s);
  EXPECT_TRUE(std::isfinite(made.sums.loss));
  EXPECT_EQ(made.gradients[0].log_prob, 0);
  EXPECT_EQ(made.gradients[1].log_prob, 0);
}

TEST(Objective, off_policy_samples_are_left_out_only_where_they_are_bad) {
  OwnedSample s;
  s.old = {-1, -1};
  s.policy = {-1.5, -1.2};
  for (const double advantage : {-1.0, 1.0}) {
    s.advantage = advantage;
    const auto made = objective({.off_policy_delta = 0.1}, s);
    EXPECT_EQ(made.sums.left_out, advantage < 0 ? 2 : 0);
    EXPECT_EQ(made.gradients[0].log_prob != 0, advantage > 0);
  }
}

// ---- aggregation

TEST(Aggregation, each_mode_by_its_formula) {
  const std::vector<std::int64_t> tokens = {2, 6, 0, 4}, groups = {7, 7, 9, 9};
  using A = LossAggregation;
  EXPECT_EQ(token_weights(A::kSampleMean, tokens, groups, 0),
            (std::vector<double>{1.0 / 8, 1.0 / 24, 1.0 / 4, 1.0 / 16}));
  EXPECT_EQ(token_weights(A::kTokenMean, tokens, groups, 0), std::vector<double>(4, 1.0 / 12));
  EXPECT_EQ(token_weights(A::kConstant, tokens, groups, 10), std::vector<double>(4, 1.0 / 40));
  EXPECT_EQ(token_weights(A::kPromptTokenMean, tokens, groups, 0),
            (std::vector<double>{1.0 / 16, 1.0 / 16, 1.0 / 8, 1.0 / 8}));
}

// I-13 and I-14, and the commonest public bug (trl#6024 and others): the loss of a batch is the sum
// over its micro-batches however it is cut, since weights are made before the cut.
TEST(Aggregation, neither_cuts_nor_order_change_the_loss) {
  std::vector<OwnedSample> samples;
  std::vector<std::int64_t> tokens, groups;
  for (std::size_t i = 0; i < 6; ++i) {
    samples.push_back(OwnedSample::random(i, 3 + 2 * i, i % 2 ? 1.0 : -0.5));
    tokens.push_back(samples.back().scores().tokens());
    groups.push_back(static_cast<std::int64_t>(i / 3));
  }
  // The definition of the token mean, without weights.
  double sum = 0, count = 0;
  for (const OwnedSample& s : samples) {
    sum += objective({}, s, 1).sums.loss;
    count += static_cast<double>(s.scores().tokens());
  }
  const auto weights = token_weights(LossAggregation::kTokenMean, tokens, groups, 0);
  double by_weights = 0;
  for (std::size_t i = samples.size(); i-- > 0;) {
    by_weights += objective({}, samples[i], weights[i]).sums.loss;
  }
  EXPECT_NEAR(by_weights, sum / count, 1e-12);
}

// ---- corrections

CorrectionConfig correction(Correction kind, CorrectionLevel level = CorrectionLevel::kToken,
                            double low = 0, double high = 2) {
  return {.kind = kind, .level = level, .low = low, .high = high};
}

TEST(Corrections, do_nothing_where_the_engine_agrees) {  // I-17
  OwnedSample s = OwnedSample::random(1, 6, 1);
  s.behaviour = s.old;
  for (const auto level :
       {CorrectionLevel::kToken, CorrectionLevel::kSequence, CorrectionLevel::kGeometric}) {
    for (const auto kind : {Correction::kTruncate, Correction::kIcePop, Correction::kMask}) {
      EXPECT_EQ(correction_factors(correction(kind, level), s.scores()),
                std::vector<double>(6, 1.0));
    }
  }
}

TEST(Corrections, masking_without_bounds_is_truncation_without_bounds) {  // I-17
  const OwnedSample s = OwnedSample::random(2, 6, 1);
  EXPECT_EQ(
      correction_factors(correction(Correction::kMask, CorrectionLevel::kToken, 0, INFINITY),
                         s.scores()),
      correction_factors(correction(Correction::kTruncate, CorrectionLevel::kToken, 0, INFINITY),
                         s.scores()));
}

TEST(Corrections, each_kind_and_level_by_hand) {
  OwnedSample s;
  s.policy = s.old = {std::log(4.0), std::log(0.5), 0};
  s.behaviour = {0, 0, 0};
  s.mask = {1, 1, 0};
  const auto near = [](const std::vector<double>& got, const std::vector<double>& expected) {
    for (std::size_t t = 0; t < 2; ++t) EXPECT_NEAR(got[t], expected[t], 1e-12) << t;
  };
  using L = CorrectionLevel;
  near(correction_factors(correction(Correction::kTruncate), s.scores()), {2, 0.5});
  near(correction_factors(correction(Correction::kTruncate, L::kToken, 0.8, 3), s.scores()),
       {3, 0.8});
  near(correction_factors(correction(Correction::kIcePop), s.scores()), {0, 0.5});
  near(correction_factors(correction(Correction::kIcePop, L::kSequence), s.scores()), {2, 2});
  near(correction_factors(correction(Correction::kMask, L::kGeometric, 0, 1.4), s.scores()),
       {0, 0});
  near(correction_factors(correction(Correction::kMask, L::kGeometric, 0, 1.5), s.scores()),
       {std::sqrt(2.0), std::sqrt(2.0)});
  CorrectionConfig veto;
  veto.veto_below = 0.6;
  near(correction_factors(veto, s.scores()), {0, 0});
  veto.veto_below = 0.4;
  near(correction_factors(veto, s.scores()), {1, 1});
}

// I-16: one step a rollout, scored by the same weights.
TEST(Objective, on_policy_ratios_are_one_and_never_clip) {
  OwnedSample s = OwnedSample::random(5, 12, 0.8);
  s.policy = s.old;
  for (const auto ratio : {ObjectiveConfig::Ratio::kToken, ObjectiveConfig::Ratio::kSequence}) {
    const auto made = objective({.ratio = ratio, .clip_low = 3e-4, .clip_high = 4e-4}, s, 1);
    EXPECT_EQ(made.sums.clipped, 0);
    EXPECT_EQ(made.sums.old_minus_policy, 0);
    for (std::size_t t = 0; t < 12; ++t) {
      EXPECT_NEAR(made.gradients[t].log_prob, s.mask[t] ? -0.8 : 0, 1e-12);
    }
  }
}

TEST(Mismatch, measures_what_it_says) {
  OwnedSample s;
  s.policy = s.old = {-1, -2, -3};
  s.behaviour = {-1.5, -1.8, -9};
  s.mask = {1, 1, 0};
  PolicyMismatch mismatch;
  mismatch.add(s.scores());
  EXPECT_EQ(mismatch.tokens, 2);
  EXPECT_NEAR(mismatch.mean_abs_difference(), 0.35, 1e-12);
  EXPECT_NEAR(mismatch.max_difference, 0.5, 1e-12);
  EXPECT_NEAR(mismatch.mean_kl(), (std::exp(0.5) - 1.5 + std::exp(-0.2) - 0.8) / 2, 1e-12);
  s.behaviour = s.old;
  PolicyMismatch none;
  none.add(s.scores());
  EXPECT_EQ(none.mean_abs_difference(), 0);
  EXPECT_EQ(none.mean_kl(), 0);
  EXPECT_EQ(none.effective_sample_share(), 1);
}

// ---- advantages

TEST(Advantages, grpo_by_hand) {
  const std::vector<double> rewards = {1, 0, 0, 1, 5};
  const std::vector<std::int64_t> groups = {0, 0, 0, 0, 1};
  const auto a = group_advantages(rewards, groups, AdvantageScale::kGroupStd);
  const double std = std::sqrt(1.0 / 3);
  EXPECT_NEAR(a[0], 0.5 / (std + 1e-6), 1e-12);
  EXPECT_NEAR(a[1], -0.5 / (std + 1e-6), 1e-12);
  EXPECT_EQ(a[4], 0);
  EXPECT_NEAR(group_advantages(rewards, groups, AdvantageScale::kNone)[0], 0.5, 1e-12);
}

TEST(Advantages, sum_to_zero_and_equal_rewards_teach_nothing) {  // I-15
  RandomNumbers random(8);
  for (const auto scale :
       {AdvantageScale::kGroupStd, AdvantageScale::kNone, AdvantageScale::kBatchStd}) {
    std::vector<double> rewards;
    std::vector<std::int64_t> groups;
    for (int i = 0; i < 24; ++i) {
      groups.push_back(i / 8);
      rewards.push_back(groups.back() == 1 ? 0.1 : random.next());
    }
    const auto a = group_advantages(rewards, groups, scale);
    double sum = 0;
    for (std::size_t i = 0; i < 24; ++i) {
      sum += a[i];
      ASSERT_TRUE(std::isfinite(a[i]));
      if (groups[i] == 1) {
        EXPECT_EQ(a[i], 0);
      }
    }
    EXPECT_NEAR(sum, 0, 1e-6);
  }
}

TEST(Advantages, whitening_weighs_tokens) {
  std::vector<double> a = {1, -1, 3};
  const std::vector<std::int64_t> tokens = {2, 1, 3};
  whiten_advantages(a, tokens);
  EXPECT_NEAR(2 * a[0] + a[1] + 3 * a[2], 0, 1e-9);
  EXPECT_NEAR((2 * a[0] * a[0] + a[1] * a[1] + 3 * a[2] * a[2]) / 5, 1, 1e-6);
}

TEST(DynamicSampling, keeps_groups_that_differ) {
  EXPECT_TRUE(group_is_informative(std::vector<double>{0, 1, 0}));
  EXPECT_FALSE(group_is_informative(std::vector<double>{1, 1, 1}));
  EXPECT_FALSE(group_is_informative(std::vector<double>{1}));
  EXPECT_FALSE(group_is_informative(std::vector<double>{1, NAN}));
}

TEST(OverlongPenalty, falls_over_the_cache) {
  EXPECT_EQ(overlong_penalty(80, 100, 20), 0);
  EXPECT_EQ(overlong_penalty(90, 100, 20), -0.5);
  EXPECT_EQ(overlong_penalty(100, 100, 20), -1);
  EXPECT_EQ(overlong_penalty(500, 100, 20), -1);
}

}  // namespace
}  // namespace tandem::train
