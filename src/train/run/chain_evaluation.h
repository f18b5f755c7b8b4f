// How well a model does the arithmetic of the experiment.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "model/model.h"
#include "train/run/train_config.h"

namespace tandem::train {

// Greedy answers to held-out prompts.
struct ChainEvaluation {
  std::int64_t prompts = 0;
  std::int64_t right = 0;
  std::int64_t with_work = 0;  // answers that show their work
  std::int64_t right_with_work = 0;

  double accuracy() const;
  // Wilson's interval at 95 %.
  double low() const;
  double high() const;
};
Result<ChainEvaluation> evaluate_chain(const TrainConfig& config, const Model& model,
                                       ThreadTeam& team);

// A prompt's tokens, with the token that begins a text.
std::vector<TokenId> chain_prompt_tokens(const ChainPrompt& prompt);

}  // namespace tandem::train
