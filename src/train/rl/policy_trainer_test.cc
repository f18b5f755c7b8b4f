// Steps of reinforcement learning on tiny random models: what must and must not move.
#include "train/rl/policy_trainer.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/philox.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "support/cases.h"
#include "support/temp_folder.h"
#include "train/rl/merged_model.h"

namespace tandem::train {
namespace {

class PolicyTrainerTest : public testing::TestWithParam<const char*> {
 protected:
  PolicyTrainerTest() : spec(read_config(folder()).value()), weights(load()) {}

  static std::filesystem::path folder() {
    return source_folder() / "tests/data/golden" / GetParam();
  }
  ModelWeights load() const {
    return load_weights(spec, Checkpoint::open(folder()).value()).value();
  }

  // An adapter with its trainer.
  struct Run {
    LoraAdapter<float> adapter;
    PolicyTrainer trainer;

    Run(const PolicyTrainerTest& test, const PolicyTrainerConfig& config, ThreadTeam& threads)
        : adapter(LoraAdapter<float>::create(test.spec, test.weights,
                                             {.rank = 4, .alpha = 8, .targets = {"all-linear"}}, 1)
                      .value()),
          trainer(test.spec, test.weights, adapter, config, cpu_kernels(), Precision::kExact,
                  threads) {}
  };

  // Two prompts of three samples, with the log-probs of the model without an adapter.
  std::vector<RolloutSample> samples() {
    std::vector<RolloutSample> made;
    for (std::uint64_t i = 0; i < 6; ++i) {
      RolloutSample sample;
      sample.group = static_cast<std::int64_t>(i / 3);
      sample.prompt_tokens = 4 + sample.group;
      for (std::uint64_t t = 0; t < static_cast<std::uint64_t>(sample.prompt_tokens); ++t) {
        sample.tokens.push_back(token(100 + i / 3, t));
      }
      for (std::uint64_t t = 0; t < 3 + i; ++t) sample.tokens.push_back(token(i, t));
      sample.behaviour.resize(3 + i);
      sample.reward = i % 3 == 0 ? 1 : 0;
      made.push_back(std::move(sample));
    }
    Run base(*this, {}, team);
    const auto scores = base.trainer.score(made);
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i].behaviour.assign(scores[i].begin(), scores[i].end());
    }
    return made;
  }
  static TokenId token(std::uint64_t seed, std::uint64_t index) {
    return static_cast<TokenId>(500 * philox_uniform(seed, index));
  }

  ModelSpec spec;
  ModelWeights weights;
  ThreadTeam team{2};
};

// rl.md, I-11 and I-16: A has no gradient while B is zero; the base is only read.
TEST_P(PolicyTrainerTest, the_first_step_moves_b_alone) {
  Run run(*this, {}, team);
  const std::vector<float> before = run.adapter.values();
  const std::string base = read_text(folder() / "model.safetensors");
  const auto report = run.trainer.train(samples());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->gradient_norm, 0);
  EXPECT_EQ(report->step, 1);
  EXPECT_EQ(report->clip_share, 0);
  EXPECT_EQ(report->mismatch.max_difference, 0) << "the same weights drew the tokens";
  EXPECT_NEAR(report->reward, 1.0 / 3, 1e-12);
  std::size_t moved = 0;
  for (const LoraModule& m : run.adapter.modules()) {
    const auto a = static_cast<std::size_t>(m.a_offset), b = static_cast<std::size_t>(m.b_offset);
    EXPECT_EQ(std::memcmp(&run.adapter.values()[a], &before[a], (b - a) * sizeof(float)), 0)
        << m.path();
    for (std::int64_t i = 0; i < m.outputs() * m.rank; ++i) {
      moved += run.adapter.values()[b + static_cast<std::size_t>(i)] != 0 ? 1 : 0;
    }
  }
  EXPECT_GT(moved, 1000u);
  EXPECT_EQ(read_text(folder() / "model.safetensors"), base);
}

// The policy of the next step makes the rewarded answers likelier than the others of their group.
TEST_P(PolicyTrainerTest, steps_raise_what_was_rewarded) {
  Run run(*this, {.rate = {.peak = 3e-3f}}, team);
  const auto batch = samples();
  const auto advantage_of = [&] {
    double gap = 0;
    const auto scores = run.trainer.score(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      double mean = 0;
      for (const double score : scores[i]) mean += score / static_cast<double>(scores[i].size());
      gap += batch[i].reward > 0 ? mean / 2 : -mean / 4;
    }
    return gap;
  };
  const double before = advantage_of();
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(run.trainer.train(batch));
  EXPECT_GT(advantage_of(), before + 0.5);
}

// I-13 and I-14: neither micro-batches nor threads change a bit.
TEST_P(PolicyTrainerTest, micro_batches_and_threads_change_no_bit) {
  const auto batch = samples();
  PolicyTrainerConfig config;
  config.objective.kl_coefficient = 0.1;
  config.objective.entropy_coefficient = 0.01;
  config.aggregation = LossAggregation::kSampleMean;  // samples weigh differently
  Run together(*this, config, team);
  config.micro_batch_rows = 12;
  ThreadTeam one(1);
  Run apart(*this, config, one);
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(together.trainer.train(batch));
    ASSERT_TRUE(apart.trainer.train(batch));
  }
  EXPECT_EQ(together.adapter.values(), apart.adapter.values());
}

TEST_P(PolicyTrainerTest, equal_rewards_and_a_rate_of_zero_move_nothing) {
  auto batch = samples();
  Run still(*this, {.rate = {.peak = 0}}, team);
  const std::vector<float> before = still.adapter.values();
  ASSERT_TRUE(still.trainer.train(batch));
  EXPECT_EQ(still.adapter.values(), before);
  for (RolloutSample& sample : batch) sample.reward = 1;  // I-15
  Run equal(*this, {}, team);
  const auto report = equal.trainer.train(batch);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->gradient_norm, 0);
  EXPECT_EQ(equal.adapter.values(), before);
}

TEST_P(PolicyTrainerTest, masked_tokens_teach_nothing) {
  auto batch = samples();
  for (RolloutSample& sample : batch) sample.mask.assign(sample.behaviour.size(), 0);
  Run run(*this, {}, team);
  const auto report = run.trainer.train(batch);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->gradient_norm, 0);
  EXPECT_EQ(report->tokens, 0);
}

// KL to the model without the adapter needs no second model: zero for a new adapter, not for long.
TEST_P(PolicyTrainerTest, kl_is_measured_from_the_base) {
  const auto batch = samples();
  PolicyTrainerConfig config;
  config.objective.kl_coefficient = 0.1;
  Run run(*this, config, team);
  EXPECT_EQ(run.trainer.train(batch)->kl, 0);
  EXPECT_GT(run.trainer.train(batch)->kl, 0);
}

// With several steps a batch the ratio is to the policy before the first of them.
TEST_P(PolicyTrainerTest, later_steps_of_a_batch_are_off_policy) {
  PolicyTrainerConfig config;
  config.steps_per_batch = 2;
  config.rate.peak = 1e-2f;
  config.objective.clip_low = config.objective.clip_high = 1e-4;
  Run run(*this, config, team);
  const auto report = run.trainer.train(samples());
  ASSERT_TRUE(report);
  EXPECT_EQ(report->step, 2);
  EXPECT_GT(report->clip_share, 0);
  EXPECT_EQ(report->mismatch.max_difference, 0) << "old is what drew them";
}

// I-23.
TEST_P(PolicyTrainerTest, resumes_bit_for_bit) {
  const auto batch = samples();
  Run through(*this, {}, team);
  ASSERT_TRUE(through.trainer.train(batch));
  TempFolder states;
  ASSERT_TRUE(save_state(through.trainer.state(), states.path(), 1));
  ASSERT_TRUE(through.trainer.train(batch));
  Run resumed(*this, {}, team);
  const auto state = load_newest_state(states.path(), resumed.trainer.layout());
  ASSERT_TRUE(state) << state.error().message;
  ASSERT_TRUE(resumed.trainer.restore(*state));
  ASSERT_TRUE(resumed.trainer.train(batch));
  EXPECT_EQ(resumed.adapter.values(), through.adapter.values());
}

// I-10: the adapter's path and its merged weights are one function.
TEST_P(PolicyTrainerTest, merged_weights_score_like_the_adapter) {
  const auto batch = samples();
  Run run(*this, {.rate = {.peak = 3e-3f}}, team);
  for (int step = 0; step < 2; ++step) ASSERT_TRUE(run.trainer.train(batch));
  MergedModel merged(spec, load(), run.adapter, cpu_kernels(), team);
  const TrainedWeights<float> nothing;
  const auto scores = [&] {
    ModelPass<float> pass(spec, merged.model().weights(), nothing, cpu_kernels(), Precision::kExact,
                          team);
    PackedBatch packed;
    for (const RolloutSample& sample : batch) packed.add(sample.tokens, sample.prompt_tokens);
    return pass.forward(packed, 1);
  };
  const auto as_base = scores();
  merged.update(run.adapter, team);
  const auto as_adapter = scores();
  std::size_t next = 0;
  const auto expected = run.trainer.score(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    for (std::size_t t = 0; t < expected[i].size(); ++t, ++next) {
      EXPECT_NEAR(as_adapter[next].log_prob, expected[i][t], 1e-4);
      EXPECT_EQ(static_cast<float>(as_base[next].log_prob), batch[i].behaviour[t]);
    }
  }
}

TEST_P(PolicyTrainerTest, samples_that_do_not_fit_together_are_named) {
  Run run(*this, {}, team);
  auto batch = samples();
  batch[2].behaviour.pop_back();
  expect_one_line(run.trainer.train(batch).error().message, {"sample 2", "log-probs"});
  batch = samples();
  batch[1].mask = {1};
  expect_one_line(run.trainer.train(batch).error().message, {"sample 1", "mask"});
  batch = samples();
  batch[0].prompt_tokens = static_cast<std::int64_t>(batch[0].tokens.size());
  expect_one_line(run.trainer.train(batch).error().message, {"sample 0", "prompt"});
  EXPECT_FALSE(run.trainer.train({}));
}

INSTANTIATE_TEST_SUITE_P(Families, PolicyTrainerTest,
                         testing::Values("k3_tiny", "kimi_linear_tiny"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tandem::train
