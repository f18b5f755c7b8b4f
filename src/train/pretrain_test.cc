// Pre-training: it learns, it is deterministic, it resumes bit for bit; answers of the model and
// the trainer's scores agree while it learns.
#include "train/pretrain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "model/checkpoint.h"
#include "model/config.h"
#include "model/make_random.h"
#include "support/temp_folder.h"
#include "train/generate.h"
#include "train/tasks/chain_task.h"

namespace tandem::train {
namespace {

class PretrainTest : public testing::Test {
 protected:
  PretrainTest() {
    const auto made = make_random_checkpoint(source_folder() / "tests/data/train/toy.config.json",
                                             folder_ / "random", {.seed = 1});
    EXPECT_TRUE(made) << made.error().message;
    spec = read_config(folder_ / "random").value();
  }

  // A run from the random checkpoint on so many threads.
  struct Run {
    ThreadTeam team;
    TrainableWeights<float> weights;
    Pretrainer trainer;

    Run(const ModelSpec& spec, const std::filesystem::path& folder, int threads, std::int64_t steps)
        : team(threads),
          weights(spec, load_weights(spec, Checkpoint::open(folder).value()).value()),
          trainer(spec, weights, config(steps), stream, cpu_kernels(), team) {}
    static PretrainConfig config(std::int64_t steps) {
      PretrainConfig made{.steps = steps, .batch = 8};
      made.rate = {
          .kind = Schedule::kCosine, .peak = 6e-3f, .warmup_steps = 5, .total_steps = steps};
      return made;
    }
    static void stream(std::uint64_t index, PackedBatch& batch) {
      const ChainExample example = chain_example({}, 7, index);
      batch.add(example.tokens, example.first_scored);
    }
    double advance(int steps) {
      double loss = 0;
      for (int i = 0; i < steps; ++i) loss = trainer.step().value().loss;
      return loss;
    }
  };
  std::unique_ptr<Run> run(int threads = 2, std::int64_t steps = 60) const {
    return std::make_unique<Run>(spec, folder_ / "random", threads, steps);
  }

  TempFolder folder_;
  ModelSpec spec;
};

TEST_F(PretrainTest, learns) {
  const auto one = run();
  const double at_first = one->advance(1);
  EXPECT_NEAR(at_first, std::log(64), 1) << "a random model knows nothing";
  one->advance(58);
  EXPECT_LT(one->advance(1), 0.55 * at_first);
  EXPECT_TRUE(one->trainer.done());
}

TEST_F(PretrainTest, bits_do_not_depend_on_threads) {
  const auto one = run(1), three = run(3);
  one->advance(5);
  three->advance(5);
  EXPECT_EQ(one->weights.values(), three->weights.values());
}

// rl.md, I-23: saved, loaded and continued is the run that was never stopped.
TEST_F(PretrainTest, resumes_bit_for_bit) {
  const auto through = run();
  through->advance(4);
  ASSERT_TRUE(save_state(through->trainer.state(), folder_ / "states", 2));
  const double expected = through->advance(3);

  const auto resumed = run();
  auto state = load_newest_state(folder_ / "states", resumed->trainer.layout());
  ASSERT_TRUE(state) << state.error().message;
  ASSERT_TRUE(resumed->trainer.restore(*std::move(state)));
  EXPECT_EQ(resumed->trainer.next_step(), 4);
  EXPECT_EQ(resumed->advance(3), expected);
  EXPECT_EQ(resumed->weights.values(), through->weights.values());
  EXPECT_TRUE(resumed->trainer.state() == through->trainer.state());
}

// After a step an expert that was chosen more than its share is less likely to be chosen.
TEST_F(PretrainTest, the_correction_bias_works_against_the_load) {
  const auto one = run();
  PackedBatch batch;
  for (std::uint64_t i = 0; i < 8; ++i) Run::stream(i, batch);
  const TrainedWeights<float> nothing;
  ModelPass<float> pass(spec, one->weights.weights(), nothing, cpu_kernels(), Precision::kExact,
                        one->team);
  pass.forward(batch, 1);
  std::vector<float> before;
  const auto bias = [&](std::size_t layer, std::size_t expert) {
    return std::get<MoeWeights>(one->weights.weights().layers[layer].ffn).router_bias[expert];
  };
  for (std::size_t l = 0; l < 2; ++l) {
    for (std::size_t e = 0; e < 4; ++e) before.push_back(bias(l, e));
  }
  one->advance(1);
  for (std::size_t l = 0; l < 2; ++l) {
    const auto& load = pass.expert_load(l);
    const auto share = static_cast<double>(batch.tokens.size()) * 2 / 4;
    for (std::size_t e = 0; e < 4; ++e) {
      const auto above = static_cast<double>(load[e]) - share;
      const float moved = bias(l, e) - before[l * 4 + e];
      EXPECT_NEAR(moved, above == 0 ? 0 : above > 0 ? -1e-3f : 1e-3f, 1e-6f) << l << " " << e;
    }
  }
}

TEST_F(PretrainTest, a_gradient_that_is_not_finite_moves_nothing) {
  const auto one = run();
  one->advance(2);
  // In the embedding of the token that every example begins with.
  one->weights.mutable_values()[static_cast<std::size_t>(spec.hidden)] = NAN;
  const std::vector<float> kept = one->weights.values();
  const auto failed = one->trainer.step();
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("norm"), std::string::npos);
  EXPECT_EQ(std::memcmp(one->weights.values().data(), kept.data(), kept.size() * 4), 0);
  EXPECT_EQ(one->trainer.next_step(), 2);
}

// The log-prob stored when a token was drawn and the one that the trainer computes for the loss, by
// two call sites, before and after weights move: the difference is 0.
TEST_F(PretrainTest, answers_of_the_saved_model_are_scored_alike) {
  const auto one = run();
  const std::string config = read_text(folder_ / "random" / "config.json");
  for (int round = 0; round < 2; ++round) {
    one->advance(20);
    const auto saved =
        save_checkpoint(spec, one->weights, config, folder_ / "saved", ExpertStorage::kF32);
    ASSERT_TRUE(saved) << saved.error().message;
    const auto model = Model::load(folder_ / "saved", Precision::kExact, cpu_kernels());
    ASSERT_TRUE(model) << model.error().message;
    std::vector<std::vector<TokenId>> prompts;
    for (std::uint64_t i = 0; i < 6; ++i) {
      prompts.push_back({ChainVocabulary::kBegin});
      const auto text =
          ChainVocabulary::encode(chain_prompt({}, PromptSplit::kHeldOut, 3, i).text());
      prompts.back().insert(prompts.back().end(), text.begin(), text.end());
    }
    const auto answers = generate(
        **model, prompts,
        {.max_tokens = 12, .stop = ChainVocabulary::kEnd, .temperature = 1, .seed = 9}, one->team);
    ASSERT_TRUE(answers) << answers.error().message;

    PackedBatch batch;
    std::vector<float> drawn;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      std::vector<TokenId> whole = prompts[i];
      const Generated& answer = (*answers)[i];
      whole.insert(whole.end(), answer.tokens.begin(), answer.tokens.end());
      drawn.insert(drawn.end(), answer.log_probs.begin(), answer.log_probs.end());
      batch.add(whole, static_cast<std::int64_t>(prompts[i].size()));
      EXPECT_EQ(answer.stopped, answer.tokens.back() == ChainVocabulary::kEnd);
      EXPECT_TRUE(answer.stopped || answer.tokens.size() == 12);
    }
    const TrainedWeights<float> nothing;
    ModelPass<float> pass(spec, (*model)->weights(), nothing, cpu_kernels(), Precision::kExact,
                          one->team);
    const auto scores = pass.forward(batch, 1);
    ASSERT_EQ(scores.size(), drawn.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      EXPECT_EQ(static_cast<float>(scores[i].log_prob), drawn[i]) << i;
    }
  }
}

}  // namespace
}  // namespace tandem::train
