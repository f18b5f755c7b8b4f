// Whole runs, small: what they leave behind, and that a stopped one goes on as if it never had
// been.
#include "train/run/train_run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/fake_clock.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/model.h"
#include "support/cases.h"
#include "support/temp_folder.h"
#include "train/peft.h"

namespace tandem::train {
namespace {

class TrainRunTest : public testing::Test {
 protected:
  TrainConfig pretraining(const std::string& output, std::int64_t steps) const {
    TrainConfig config;
    config.kind = TrainConfig::Kind::kPretrain;
    config.output = folder_ / output;
    config.seed = 1;
    config.threads = 2;
    config.save_interval = 3;
    config.eval_prompts = 8;
    config.max_answer_tokens = 6;
    config.pretrain.model_config = source_folder() / "tests/data/train/toy.config.json";
    config.pretrain.trainer.steps = steps;
    config.pretrain.trainer.batch = 4;
    config.pretrain.trainer.rate = {.peak = 1e-3f};
    return config;
  }
  TrainConfig reinforcement(const std::string& output, std::int64_t rollouts) const {
    TrainConfig config = pretraining(output, 1);
    config.kind = TrainConfig::Kind::kReinforce;
    config.reinforce.base = folder_ / "base";
    config.reinforce.lora = {.rank = 2, .alpha = 4, .targets = {"all-linear"}};
    config.reinforce.rollouts = rollouts;
    config.reinforce.prompts = 2;
    config.reinforce.samples = 3;
    // A base that knows nothing earns nothing; entropy gives the adapter something to learn.
    config.reinforce.trainer.objective.entropy_coefficient = 0.1;
    config.reinforce.trainer.rate = {.peak = 1e-2f};
    return config;
  }
  std::vector<std::string> run(const TrainConfig& config) {
    std::vector<std::string> lines;
    const auto done = run_training(
        config, [&](const std::string& line) { lines.push_back(line); }, clock_);
    EXPECT_TRUE(done) << done.error().message;
    return lines;
  }
  // Metrics without what a clock says.
  std::vector<nlohmann::json> metrics(const std::string& output) const {
    std::vector<nlohmann::json> all;
    std::istringstream text(read_text(folder_ / output / "metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
      all.push_back(nlohmann::json::parse(line));
      for (const char* name : {"seconds", "perf/rollout_time", "perf/train_time"}) {
        all.back().erase(name);
      }
    }
    return all;
  }
  // Values of the newest state.
  std::string state(const std::string& output, std::int64_t step) const {
    return read_text(folder_ / output / "states" / fmt::format("step_{}", step) /
                     "state.safetensors");
  }

  TempFolder folder_;
  FakeClock clock_;
};

TEST_F(TrainRunTest, a_base_is_a_checkpoint) {
  const auto lines = run(pretraining("base", 4));
  EXPECT_NE(lines.back().find("held out"), std::string::npos);
  const auto model = Model::load(folder_ / "base", Precision::kExact, cpu_kernels());
  ASSERT_TRUE(model) << model.error().message;
  const auto& expert = std::get<MoeWeights>((*model)->weights().layers[0].ffn).experts[0];
  EXPECT_EQ(expert.gate.dtype, DType::kMxfp4);
  const auto written = metrics("base");
  ASSERT_EQ(written.size(), 5u);
  EXPECT_EQ(written[3].at("step"), 3);
  EXPECT_GT(written[3].at("loss"), 0);
  EXPECT_EQ(written[4].at("kind"), "eval");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "base" / "start"));
}

// A run that is stopped anywhere between two saved states writes the same curve and values when it
// is started again.
TEST_F(TrainRunTest, stopped_pretraining_goes_on_bit_for_bit) {
  run(pretraining("through", 8));
  auto config = pretraining("stopped", 8);
  struct Stop {};
  clock_.advance(std::chrono::seconds(1));
  int steps = 0;
  const auto stop_after = [&](const std::string&) {
    if (++steps == 5) throw Stop();
  };
  EXPECT_THROW(static_cast<void>(run_training(config, stop_after, clock_)), Stop);
  EXPECT_EQ(metrics("stopped").size(), 5u) << "two more than the saved state";
  const auto lines = run(config);
  EXPECT_EQ(lines.front(), "going on from step 3");
  EXPECT_EQ(metrics("stopped"), metrics("through"));
  EXPECT_EQ(state("stopped", 8), state("through", 8));
  EXPECT_EQ(read_text(folder_ / "stopped" / "model.safetensors"),
            read_text(folder_ / "through" / "model.safetensors"));
}

TEST_F(TrainRunTest, stopped_reinforcement_goes_on_bit_for_bit) {
  run(pretraining("base", 12));
  const std::string base = read_text(folder_ / "base" / "model.safetensors");
  run(reinforcement("through", 5));
  run(reinforcement("stopped", 3));
  const auto lines = run(reinforcement("stopped", 5));
  EXPECT_EQ(lines.front(), "going on from rollout 3");
  auto through = metrics("through"), stopped = metrics("stopped");
  // The shorter run evaluated at its own end too.
  std::erase_if(through, [](const auto& line) { return line.at("kind") == "eval"; });
  std::erase_if(stopped, [](const auto& line) { return line.at("kind") == "eval"; });
  EXPECT_EQ(stopped, through);
  EXPECT_EQ(through.size(), 5u);
  for (const char* name : {"train/train_rollout_logprob_abs_diff", "train/train_rollout_kl"}) {
    EXPECT_LE(through.back().at(name), 1e-4) << name;
  }
  EXPECT_EQ(through[0].at("train/train_rollout_logprob_max_diff"), 0) << "B is zero";
  EXPECT_GT(through[4].at("train/train_rollout_logprob_max_diff"), 0) << "B is not";
  EXPECT_EQ(read_text(folder_ / "stopped" / "adapter" / kPeftTensorFile),
            read_text(folder_ / "through" / "adapter" / kPeftTensorFile));

  // I-11: the base was only read. I-24: what was written is the adapter.
  EXPECT_EQ(read_text(folder_ / "base" / "model.safetensors"), base);
  const ModelSpec spec = read_config(folder_ / "base").value();
  const ModelWeights weights =
      load_weights(spec, Checkpoint::open(folder_ / "base").value()).value();
  const auto adapter = load_peft(folder_ / "through" / "adapter", spec, weights);
  ASSERT_TRUE(adapter) << adapter.error().message;
  EXPECT_EQ(adapter->config().rank, 2);
}

TEST_F(TrainRunTest, dynamic_sampling_replaces_prompts_that_teach_nothing) {
  run(pretraining("base", 4));
  auto config = reinforcement("rl", 2);
  config.reinforce.dynamic_sampling = true;
  run(config);
  // A model that knows nothing earns nothing: all rounds are drawn, and no step is taken.
  for (const auto& line : metrics("rl")) {
    if (line.at("kind") == "eval") continue;
    EXPECT_EQ(line.at("rollout/groups"), 8);
    EXPECT_EQ(line.at("train/grad_norm"), 0);
  }
}

TEST_F(TrainRunTest, what_does_not_fit_is_named) {
  auto config = pretraining("base", 1);
  config.pretrain.model_config = source_folder() / "tests/data/golden/k3_tiny/config.json";
  const auto vocabulary = run_training(
      config, [](const std::string&) {}, clock_);
  ASSERT_FALSE(vocabulary);
  expect_one_line(vocabulary.error().message, {"vocab_size", "64", "512"});
  const auto no_base = run_training(
      reinforcement("rl", 1), [](const std::string&) {}, clock_);
  ASSERT_FALSE(no_base);
  expect_one_line(no_base.error().message, {"base", "config.json"});
  run(pretraining("base", 1));
  auto target = reinforcement("rl", 1);
  target.reinforce.lora.targets = {"q_proj", "nothing"};
  const auto no_target = run_training(
      target, [](const std::string&) {}, clock_);
  ASSERT_FALSE(no_target);
  expect_one_line(no_target.error().message, {"nothing"});
}

}  // namespace
}  // namespace tandem::train
