// The small experiment from nothing: a base is pre-trained, packed and frozen, then an adapter is
// trained by reinforcement on it. tools/toy has the same runs for the command line.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "support/temp_folder.h"
#include "train/run/train_run.h"

namespace tandem::train {
namespace {

class ToyExperiment : public testing::Test {
 protected:
  // One of tools/toy, with its folders moved.
  TrainConfig config(const std::string& file, const std::string& output) const {
    const auto path = source_folder() / "tools/toy" / file;
    auto made = parse_train_config(read_text(path), path.string());
    if (!made) throw std::runtime_error(made.error().message);
    made->output = folder_ / output;
    made->pretrain.model_config = source_folder() / made->pretrain.model_config;
    made->reinforce.base = folder_ / "base";
    return *made;
  }
  void run(const TrainConfig& wanted) {
    const auto done = run_training(
        wanted, [](const std::string& line) { std::puts(line.c_str()); }, SystemClock());
    ASSERT_TRUE(done) << done.error().message;
  }
  std::vector<nlohmann::json> lines(const std::string& output, const std::string& kind) const {
    std::vector<nlohmann::json> all;
    std::istringstream text(read_text(folder_ / output / "metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
      auto json = nlohmann::json::parse(line);
      if (json.at("kind") == kind) all.push_back(std::move(json));
    }
    return all;
  }

  TempFolder folder_;
};

TEST_F(ToyExperiment, elicits_the_work_that_the_base_can_do) {
  run(config("base.toml", "base"));
  const auto base = lines("base", "eval").back();
  // Greedily it shows its work for some prompts only, and is right where it does.
  EXPECT_GE(base.at("accuracy"), 0.33);
  EXPECT_LE(base.at("accuracy"), 0.47);
  EXPECT_GE(base.at("accuracy_with_work"), 0.85);

  run(config("rl.toml", "rl"));
  const auto evals = lines("rl", "eval");
  EXPECT_EQ(evals.front().at("accuracy"), base.at("accuracy")) << "a new adapter changes nothing";
  EXPECT_GE(evals.back().at("accuracy"), 0.9);
  EXPECT_GE(evals.back().at("low"), 0.85);
  for (const auto& line : lines("rl", "reinforce")) {
    EXPECT_LE(line.at("train/train_rollout_logprob_max_diff"), 1e-4);
    EXPECT_LE(line.at("train/train_rollout_kl"), 2e-4);
  }

  // Controls: a learning rate of zero moves nothing; rewards that teach nothing neither.
  TrainConfig still = config("rl.toml", "still");
  still.reinforce.rollouts = 3;
  still.reinforce.trainer.rate.peak = 0;
  run(still);
  EXPECT_EQ(lines("still", "eval").back().at("accuracy"), base.at("accuracy"));
}

}  // namespace
}  // namespace tandem::train
