// The configuration file of a run: what is read, and what is refused with its place.
#include "train/run/train_config.h"

#include <gtest/gtest.h>

#include "support/cases.h"

namespace tandem::train {
namespace {

constexpr const char* kReinforce = R"(
kind = "reinforce"
output = "out/rl"
seed = 3
eval_interval = 10
rollout_max_response_len = 50
[task]
operators = "+-*"
max_operators = 6
[reinforce]
base = "out/base"
num_rollout = 20
rollout_batch_size = 8
n_samples_per_prompt = 4
advantage_estimator = "gspo"
eps_clip = 3e-4
eps_clip_high = 4e-4
kl_loss_coef = 0.01
kl_loss_type = "low_var_kl"
correction = "tis"
tis_clip = 3
loss_aggregation = "sample_mean"
lora_rank = 4
lora_alpha = 8
target_modules = ["o_proj", "w1"]
lr = 1e-3
adam_beta2 = 0.98
dynamic_sampling = true
)";

TEST(TrainConfigTest, every_section_is_read) {
  const auto config = parse_train_config(kReinforce, "rl.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->kind, TrainConfig::Kind::kReinforce);
  EXPECT_EQ(config->output, "out/rl");
  EXPECT_EQ(config->seed, 3u);
  EXPECT_EQ(config->task.operators, "+-*");
  EXPECT_EQ(config->task.max_operators, 6);
  const auto& own = config->reinforce;
  EXPECT_EQ(own.base, "out/base");
  EXPECT_EQ(own.prompts, 8);
  EXPECT_EQ(own.samples, 4);
  EXPECT_TRUE(own.dynamic_sampling);
  EXPECT_EQ(own.lora.rank, 4);
  EXPECT_EQ(own.lora.targets, (std::vector<std::string>{"o_proj", "w1"}));
  EXPECT_EQ(own.trainer.objective.ratio, ObjectiveConfig::Ratio::kSequence);
  EXPECT_EQ(own.trainer.objective.clip_high, 4e-4);
  EXPECT_EQ(own.trainer.objective.kl, KlEstimator::kLowVariance);
  EXPECT_EQ(own.trainer.correction.kind, Correction::kTruncate);
  EXPECT_EQ(own.trainer.correction.high, 3);
  EXPECT_EQ(own.trainer.aggregation, LossAggregation::kSampleMean);
  EXPECT_EQ(own.trainer.max_answer_tokens, 50);
  EXPECT_FLOAT_EQ(own.trainer.rate.peak, 1e-3f);
  EXPECT_FLOAT_EQ(own.trainer.optimiser.beta2, 0.98f);
}

TEST(TrainConfigTest, the_upper_clip_is_the_lower_one_unless_said) {
  const auto config = parse_train_config(
      "kind = \"reinforce\"\noutput = \"o\"\n[reinforce]\nbase = \"b\"\neps_clip = 0.1\n", "c");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->reinforce.trainer.objective.clip_high, 0.1);
}

struct Refusal : NamedCase {
  const char* text;
  std::vector<std::string> parts;
};

class TrainConfigRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(TrainConfigRefusals, name_the_key_and_the_line) {
  const auto config = parse_train_config(GetParam().text, "run.toml");
  ASSERT_FALSE(config);
  expect_one_line(config.error().message, GetParam().parts);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, TrainConfigRefusals,
    testing::Values(
        Refusal{{"no_kind"}, "output = \"o\"", {"run.toml", "kind"}},
        Refusal{
            {"wrong_kind"}, "kind = \"sft\"\noutput = \"o\"", {"run.toml:1", "kind", "pretrain"}},
        Refusal{{"not_toml"}, "kind = \n", {"run.toml:1"}},
        Refusal{{"no_section"}, "kind = \"pretrain\"\noutput = \"o\"", {"pretrain", "missing"}},
        Refusal{{"unknown_key"},
                "kind = \"pretrain\"\noutput = \"o\"\nsteps = 3\n[pretrain]\nmodel_config = \"c\"",
                {"run.toml:3", "steps", "no such key"}},
        Refusal{{"unknown_key_inside"},
                "kind = \"pretrain\"\noutput = \"o\"\n[pretrain]\nmodel_config = \"c\"\nstep = 3",
                {"run.toml:5", "pretrain.step"}},
        Refusal{
            {"section_of_the_other_kind"},
            "kind = \"pretrain\"\noutput = \"o\"\n[pretrain]\nmodel_config = \"c\"\n[reinforce]",
            {"reinforce", "no such key"}},
        Refusal{
            {"wrong_type"},
            "kind = \"pretrain\"\noutput = \"o\"\n[pretrain]\nmodel_config = \"c\"\nsteps = \"3\"",
            {"run.toml:5", "pretrain.steps", "whole number"}},
        Refusal{{"out_of_range"},
                "kind = \"pretrain\"\noutput = \"o\"\n[pretrain]\nmodel_config = \"c\"\nlr = -1.0",
                {"run.toml:5", "pretrain.lr"}},
        Refusal{{"not_a_number"},
                "kind = \"pretrain\"\noutput = \"o\"\n[pretrain]\nmodel_config = \"c\"\nlr = nan",
                {"run.toml:5", "pretrain.lr"}},
        Refusal{
            {"no_base"}, "kind = \"reinforce\"\noutput = \"o\"\n[reinforce]", {"reinforce.base"}},
        Refusal{
            {"wrong_choice"},
            "kind = \"reinforce\"\noutput = \"o\"\n[reinforce]\nbase = \"b\"\ncorrection = \"x\"",
            {"run.toml:5", "reinforce.correction", "icepop", "'x'"}},
        Refusal{
            {"wrong_operators"},
            "kind = \"reinforce\"\noutput = \"o\"\n[task]\noperators = \"/\"\n[reinforce]\nbase = "
            "\"b\"",
            {"task.operators"}}),
    CaseName());

}  // namespace
}  // namespace tandem::train
