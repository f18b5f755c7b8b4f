// The arithmetic of the small experiment.
#include "train/tasks/chain_task.h"

#include <gtest/gtest.h>

#include <set>

namespace tandem::train {
namespace {

ChainPrompt prompt_of(std::vector<int> operands, std::string operators) {
  return {std::move(operands), std::move(operators), 10};
}

std::vector<TokenId> answer_of(const std::string& text) {
  auto tokens = ChainVocabulary::encode(text);
  tokens.push_back(ChainVocabulary::kEnd);
  return tokens;
}

TEST(ChainTask, chains_run_from_left_to_right) {
  const ChainPrompt prompt = prompt_of({7, 5, 3, 8}, "+*-");
  EXPECT_EQ(prompt.text(), "Q:7+5*3-8=");
  EXPECT_EQ(prompt.work(), "7+5=2*3=6-8=8");
  EXPECT_EQ(prompt.answer(), 8);
}

TEST(ChainTask, a_box_is_one_token_and_text_comes_back) {
  const std::string text = "7+5=2\\boxed{2}";
  const auto ids = ChainVocabulary::encode(text);
  EXPECT_EQ(ids.size(), 8u);
  EXPECT_EQ(ChainVocabulary::decode(ids), text);
  for (const TokenId id : ids) EXPECT_LT(id, ChainVocabulary::kSize);
}

TEST(ChainTask, training_never_sees_a_held_out_prompt) {
  const ChainTaskConfig config;
  std::set<std::string> held_out;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const ChainPrompt prompt = chain_prompt(config, PromptSplit::kHeldOut, 1, i);
    EXPECT_TRUE(prompt.held_out());
    held_out.insert(prompt.text());
    EXPECT_FALSE(chain_prompt(config, PromptSplit::kTraining, 2, i).held_out());
  }
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const std::string text = ChainVocabulary::decode(chain_example(config, 3, i).tokens);
    const std::string prompt = text.substr(0, text.find('=') + 1);
    EXPECT_FALSE(held_out.contains(prompt)) << prompt;
  }
}

TEST(ChainTask, examples_have_the_shares_they_should) {
  const ChainTaskConfig config;
  const int count = 8000;
  int filler = 0, work[2] = {}, prompts[2] = {};
  for (int i = 0; i < count; ++i) {
    const ChainExample example = chain_example(config, 5, static_cast<std::uint64_t>(i));
    EXPECT_EQ(example.tokens.front(), ChainVocabulary::kBegin);
    EXPECT_EQ(example.tokens.back(), ChainVocabulary::kEnd);
    EXPECT_LE(example.tokens.size(), 40u);
    const std::string text = ChainVocabulary::decode(example.tokens);
    if (!text.starts_with("Q:")) {
      ++filler;
      continue;
    }
    const int high = text[2] >= '6' ? 1 : 0;
    ++prompts[high];
    const std::span<const TokenId> answer =
        std::span(example.tokens).subspan(static_cast<std::size_t>(example.first_scored));
    work[high] += shows_work(answer) ? 1 : 0;
  }
  EXPECT_NEAR(filler / double(count), 0.2, 0.02);
  EXPECT_NEAR(work[1] / double(prompts[1]), 0.9, 0.03);
  EXPECT_NEAR(work[0] / double(prompts[0]), 0.1, 0.03);
}

TEST(ChainTask, examples_are_a_function_of_seed_and_index) {
  const ChainTaskConfig config;
  EXPECT_EQ(chain_example(config, 5, 17).tokens, chain_example(config, 5, 17).tokens);
  EXPECT_NE(chain_example(config, 5, 17).tokens, chain_example(config, 5, 18).tokens);
  EXPECT_NE(chain_example(config, 5, 17).tokens, chain_example(config, 6, 17).tokens);
}

TEST(ChainTask, only_one_right_box_at_the_end_is_rewarded) {
  const ChainPrompt prompt = prompt_of({7, 5, 3}, "+-");
  EXPECT_EQ(chain_reward(prompt, answer_of("\\boxed{9}")), 1);
  EXPECT_EQ(chain_reward(prompt, answer_of("7+5=2-3=9\\boxed{9}")), 1);
  EXPECT_EQ(chain_reward(prompt, answer_of("\\boxed{8}")), 0);
  EXPECT_EQ(chain_reward(prompt, answer_of("9")), 0);
  EXPECT_EQ(chain_reward(prompt, answer_of("\\boxed{9}\\boxed{9}")), 0) << "one box";
  EXPECT_EQ(chain_reward(prompt, answer_of("\\boxed{9}.")), 0) << "the box is last";
  EXPECT_EQ(chain_reward(prompt, ChainVocabulary::encode("\\boxed{9}")), 0) << "no end";
  EXPECT_EQ(chain_reward(prompt, {}), 0);
}

}  // namespace
}  // namespace tandem::train
