// Answers to many prompts at once, straight from a model: for evaluations during training.
//
// No queue, no cache, no engine: all prompts run together, and what has ended drops out of the
// batch. By the kernels' contract an answer does not depend on the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "model/model.h"

namespace tandem::train {

struct GenerateOptions {
  std::int64_t max_tokens = 64;
  TokenId stop = -1;       // ends an answer and is its last token
  float temperature = 0;   // 0 is greedy
  std::uint64_t seed = 0;  // answer i draws from seed + i
};

struct Generated {
  std::vector<TokenId> tokens;
  std::vector<float> log_probs;  // of each token, at temperature 1
  bool stopped = false;          // by the stop token, not by max_tokens
};

// One answer a prompt, in order. Prompts are not empty and fit the model's context with max_tokens.
// An error if logits are not finite.
Result<std::vector<Generated>> generate(const Model& model,
                                        std::span<const std::vector<TokenId>> prompts,
                                        const GenerateOptions& options, ThreadTeam& team);

}  // namespace tandem::train
