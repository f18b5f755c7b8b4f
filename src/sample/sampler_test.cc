#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace tandem {
namespace {

// Logits of the given probabilities.
std::vector<float> logits_of(std::vector<double> probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

TokenId sample_once(SamplingParams params, std::vector<float> logits) {
  Sampler sampler(params, {});
  return sampler.next(logits)->id;
}

// How often each token comes in `draws` draws of one request, with penalties off.
std::map<TokenId, int> histogram(SamplingParams params, const std::vector<float>& logits,
                                 int draws) {
  Sampler sampler(params, {});
  std::map<TokenId, int> counts;
  for (int i = 0; i < draws; ++i) {
    std::vector<float> copy = logits;
    ++counts[sampler.next(copy)->id];
  }
  return counts;
}

TEST(SamplerTest, temperature_zero_takes_the_largest_logit_and_the_lowest_id_on_a_tie) {
  EXPECT_EQ(sample_once({.temperature = 0}, {0.5f, 2.0f, 2.0f, 1.0f}), 1);
}

TEST(SamplerTest, draws_follow_the_distribution) {
  const std::vector<double> p = {0.5, 0.25, 0.15, 0.1};
  const int n = 20'000;
  auto counts = histogram({.seed = 7}, logits_of(p), n);
  double chi2 = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * n;
    chi2 += std::pow(counts[static_cast<TokenId>(i)] - expected, 2) / expected;
  }
  EXPECT_LT(chi2, 16.3);  // 3 degrees of freedom, p = 0.001
}

TEST(SamplerTest, temperature_sharpens_and_flattens) {
  const auto logits = logits_of({0.6, 0.4});
  EXPECT_GT(histogram({.temperature = 0.2f, .seed = 1}, logits, 4000)[0], 3400);
  EXPECT_LT(histogram({.temperature = 5.0f, .seed = 1}, logits, 4000)[0], 2300);
}

TEST(SamplerTest, truncations_keep_what_they_say) {
  const auto logits = logits_of({0.05, 0.4, 0.3, 0.2, 0.05});
  const auto support = [&](SamplingParams params) {
    std::set<TokenId> ids;
    for (const auto& [id, count] : histogram(params, logits, 3000)) ids.insert(id);
    return ids;
  };
  EXPECT_EQ(support({.top_k = 2}), (std::set<TokenId>{1, 2}));
  EXPECT_EQ(support({.top_p = 0.65f}), (std::set<TokenId>{1, 2}));  // 0.4 + 0.3 reaches it
  EXPECT_EQ(support({.top_p = 0.75f}), (std::set<TokenId>{1, 2, 3}));
  EXPECT_EQ(support({.top_p = 1e-6f}), (std::set<TokenId>{1}));  // never empty
  EXPECT_EQ(support({.min_p = 0.4f}), (std::set<TokenId>{1, 2, 3}));
  EXPECT_EQ(support({.top_k = 0}).size(), 5u);
  EXPECT_EQ(support({.top_k = 3, .min_p = 0.6f}), (std::set<TokenId>{1, 2}));
}

TEST(SamplerTest, top_p_over_a_wide_flat_vocabulary_reaches_its_mass) {
  std::vector<float> flat(5000, 0.0f);
  std::set<TokenId> ids;
  for (const auto& [id, count] : histogram({.top_p = 0.9f, .seed = 3}, flat, 60)) ids.insert(id);
  EXPECT_LT(*ids.rbegin(), 4501);
  EXPECT_GT(*ids.rbegin(), 3000);  // beyond the thousand that are sorted first
}

TEST(SamplerTest, the_seed_decides_and_neighbours_do_not) {
  const std::vector<float> logits(100, 0.0f);
  const auto text = [&](std::uint64_t seed) {
    Sampler sampler({.seed = seed}, {});
    std::vector<TokenId> ids;
    for (int i = 0; i < 16; ++i) {
      std::vector<float> copy = logits;
      ids.push_back(sampler.next(copy)->id);
    }
    return ids;
  };
  EXPECT_EQ(text(1), text(1));
  std::set<std::vector<TokenId>> distinct;
  for (std::uint64_t seed = 0; seed < 8; ++seed) distinct.insert(text(seed));
  EXPECT_EQ(distinct.size(), 8u);
}

TEST(SamplerTest, penalties_move_generated_and_seen_tokens) {
  Sampler frequency({.temperature = 0, .frequency_penalty = 0.6f}, {});
  std::vector<TokenId> ids;
  for (int i = 0; i < 3; ++i) {
    std::vector<float> logits = {1.0f, 0.5f, -9.0f};
    ids.push_back(frequency.next(logits)->id);
  }
  EXPECT_EQ(ids, (std::vector<TokenId>{0, 1, 0}));  // 0.4 < 0.5, then 0.4 > -0.1

  const std::vector<TokenId> prompt = {0};
  Sampler repetition({.temperature = 0, .repetition_penalty = 2.0f}, prompt);
  std::vector<float> logits = {1.0f, 0.6f};
  EXPECT_EQ(repetition.next(logits)->id, 1);

  Sampler negative({.temperature = 0, .repetition_penalty = 2.0f}, prompt);
  logits = {-1.0f, -1.5f};
  EXPECT_EQ(negative.next(logits)->id, 1);  // -1 becomes -2
}

TEST(SamplerTest, biases_move_logits_and_a_bias_on_all_moves_nothing) {
  EXPECT_EQ(sample_once({.temperature = 0, .logit_bias = {{2, 3.0f}}}, {1, 2, 0}), 2);
  EXPECT_EQ(sample_once({.temperature = 0, .logit_bias = {{1, -100.0f}}}, {1, 2, 0}), 0);
  EXPECT_EQ(
      sample_once({.temperature = 0, .logit_bias = {{0, -100}, {1, -100}, {2, -100}}}, {1, 2, 0}),
      1);
}

TEST(SamplerTest, stop_ids_wait_for_min_tokens) {
  const std::vector<TokenId> stops = {1, 1};
  Sampler sampler({.temperature = 0, .min_tokens = 2}, {}, stops);
  std::vector<TokenId> ids;
  for (int i = 0; i < 3; ++i) {
    std::vector<float> logits = {1, 5, 2};
    ids.push_back(sampler.next(logits)->id);
  }
  EXPECT_EQ(ids, (std::vector<TokenId>{2, 2, 1}));

  Sampler nothing_else({.temperature = 0, .min_tokens = 2}, {}, std::vector<TokenId>{0});
  std::vector<float> one = {1};
  EXPECT_EQ(nothing_else.next(one)->id, 0);
}

// Allows the ids of each step's mask in turn.
class ScriptedConstraint final : public TokenConstraint {
 public:
  ScriptedConstraint(std::vector<std::uint64_t> masks, std::vector<TokenId>* accepted)
      : masks_(std::move(masks)), accepted_(accepted) {}
  Result<std::span<const std::uint64_t>> allowed() override {
    return std::span<const std::uint64_t>(&masks_[accepted_->size()], 1);
  }
  void accept(TokenId token) override { accepted_->push_back(token); }

 private:
  std::vector<std::uint64_t> masks_;
  std::vector<TokenId>* accepted_;
};

TEST(SamplerTest, a_constraint_leaves_only_what_it_allows_and_hears_what_was_drawn) {
  for (const SamplingParams& params : {SamplingParams{.temperature = 0}, SamplingParams{.seed = 3},
                                       SamplingParams{.top_p = 0.5f, .top_k = 3, .seed = 4},
                                       SamplingParams{.temperature = 1e-30f, .min_tokens = 9}}) {
    std::vector<TokenId> accepted;
    const std::vector<TokenId> stops = {2};
    Sampler sampler(params, {}, stops,
                    std::make_unique<ScriptedConstraint>(
                        std::vector<std::uint64_t>{0b1010, 0b100, 0}, &accepted));
    std::vector<float> logits = {9, 1, 8, 2};
    const TokenId first = sampler.next(logits)->id;
    EXPECT_TRUE(first == 1 || first == 3);
    logits = {9, 1, -50, 2};
    EXPECT_EQ(sampler.next(logits)->id, 2);  // a stop id, but nothing else fits
    EXPECT_EQ(accepted, (std::vector<TokenId>{first, 2}));
    logits = {9, 1, 8, 2};
    EXPECT_EQ(sampler.next(logits).error().code, StatusCode::kInternal);
  }
}

TEST(SamplerTest, what_a_constraint_leaves_is_drawn_in_the_models_proportions) {
  std::map<TokenId, int> counts;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    std::vector<TokenId> accepted;
    Sampler sampler(
        {.seed = seed}, {}, {},
        std::make_unique<ScriptedConstraint>(std::vector<std::uint64_t>{0b110}, &accepted));
    auto logits = logits_of({0.7, 0.2, 0.1});
    ++counts[sampler.next(logits)->id];
  }
  EXPECT_EQ(counts[0], 0);
  EXPECT_NEAR(counts[1], 4000 * 2 / 3, 150);
}

TEST(SamplerTest, logprobs_are_the_models_own_and_sorted) {
  SamplingParams params{
      .temperature = 0.3f, .frequency_penalty = 2.0f, .seed = 5, .top_logprobs = 2};
  Sampler sampler(params, {});
  for (int i = 0; i < 5; ++i) {
    auto logits = logits_of({0.1, 0.6, 0.3});
    const auto token = sampler.next(logits);
    const float expected =
        std::log(std::vector<float>{0.1f, 0.6f, 0.3f}[static_cast<std::size_t>(token->id)]);
    EXPECT_NEAR(token->logprob, expected, 1e-6);
    ASSERT_EQ(token->top.size(), 2u);
    EXPECT_EQ(token->top[0].id, 1);
    EXPECT_EQ(token->top[1].id, 2);
    EXPECT_NEAR(token->top[1].logprob, std::log(0.3f), 1e-6);
  }
}

TEST(SamplerTest, logits_that_are_not_finite_end_the_request) {
  Sampler sampler({}, {});
  std::vector<float> logits = {0.0f, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(sampler.next(logits).error().code, StatusCode::kInternal);
}

TEST(SamplerTest, parameters_out_of_range_are_refused_by_name) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::pair<SamplingParams, std::string> cases[] = {
      {{.temperature = -1}, "temperature"},
      {{.temperature = nan}, "temperature"},
      {{.temperature = 1e9f}, "temperature"},
      {{.top_p = 0}, "top_p"},
      {{.top_p = 2}, "top_p"},
      {{.top_p = nan}, "top_p"},
      {{.top_k = -5}, "top_k"},
      {{.min_p = 1.5f}, "min_p"},
      {{.presence_penalty = nan}, "presence_penalty"},
      {{.frequency_penalty = 3}, "frequency_penalty"},
      {{.repetition_penalty = 0}, "repetition_penalty"},
      {{.logit_bias = {{-1, 0}}}, "logit_bias"},
      {{.logit_bias = {{100, 0}}}, "logit_bias"},
      {{.logit_bias = {{1, 101}}}, "logit_bias"},
      {{.logit_bias = {{1, nan}}}, "logit_bias"},
      {{.min_tokens = -1}, "min_tokens"},
      {{.top_logprobs = 21}, "top_logprobs"}};
  for (const auto& [params, field] : cases) {
    const auto checked = check_sampling_params(params, 100);
    ASSERT_FALSE(checked) << field;
    EXPECT_EQ(checked.error().field, field);
  }
  EXPECT_TRUE(
      check_sampling_params({.logit_bias = {{99, -100.0f}, {0, 100.0f}}, .min_tokens = 5}, 100));
}

}  // namespace
}  // namespace tandem
