// A token that a step chose, as it travels from the sampler to whoever asked.
#pragma once

#include <memory>
#include <vector>

#include "base/ids.h"

namespace tandem {

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

struct SampledToken;

// Of a prompt's tokens from some position on, in order.
using PromptLogprobs = std::vector<SampledToken>;

struct SampledToken {
  TokenId id = 0;
  // Of the model's own distribution, before penalties, temperature and truncation. Set if asked
  // for.
  float logprob = 0;
  std::vector<TokenLogprob> top = {};  // descending
  // With the first token of an answer whose prompt was to be scored, else nullptr.
  std::shared_ptr<const PromptLogprobs> prompt = nullptr;
};

}  // namespace tandem
