#include "train/run/chain_evaluation.h"

#include <algorithm>
#include <cmath>

#include "train/generate.h"

namespace tandem::train {
namespace {

// The prompts of every evaluation are the same.
constexpr std::uint64_t kEvaluationSeed = 99;
constexpr double kZ95 = 1.959964;

double wilson(std::int64_t right, std::int64_t prompts, double sign) {
  const auto n = static_cast<double>(std::max<std::int64_t>(prompts, 1));
  const double p = static_cast<double>(right) / n;
  const double z2 = kZ95 * kZ95;
  const double spread = kZ95 * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return (p + z2 / (2 * n) + sign * spread) / (1 + z2 / n);
}

}  // namespace

double ChainEvaluation::accuracy() const {
  return static_cast<double>(right) / static_cast<double>(std::max<std::int64_t>(prompts, 1));
}
double ChainEvaluation::low() const { return wilson(right, prompts, -1); }
double ChainEvaluation::high() const { return wilson(right, prompts, 1); }

std::vector<TokenId> chain_prompt_tokens(const ChainPrompt& prompt) {
  std::vector<TokenId> tokens = {ChainVocabulary::kBegin};
  const std::vector<TokenId> text = ChainVocabulary::encode(prompt.text());
  tokens.insert(tokens.end(), text.begin(), text.end());
  return tokens;
}

Result<ChainEvaluation> evaluate_chain(const TrainConfig& config, const Model& model,
                                       ThreadTeam& team) {
  std::vector<ChainPrompt> prompts;
  std::vector<std::vector<TokenId>> tokens;
  for (std::int64_t i = 0; i < config.eval_prompts; ++i) {
    prompts.push_back(chain_prompt(config.task, PromptSplit::kHeldOut, kEvaluationSeed,
                                   static_cast<std::uint64_t>(i)));
    tokens.push_back(chain_prompt_tokens(prompts.back()));
  }
  const std::vector<Generated> answers =
      TRY(generate(model, tokens,
                   {.max_tokens = config.max_answer_tokens, .stop = ChainVocabulary::kEnd}, team));
  ChainEvaluation result{.prompts = config.eval_prompts};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const bool right = chain_reward(prompts[i], answers[i].tokens) > 0;
    const bool work = shows_work(answers[i].tokens);
    result.right += right ? 1 : 0;
    result.with_work += work ? 1 : 0;
    result.right_with_work += right && work ? 1 : 0;
  }
  return result;
}

}  // namespace tandem::train
