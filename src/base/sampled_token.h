// A token that a step chose, as it travels from the sampler to whoever asked.
#pragma once

#include <vector>

#include "base/ids.h"

namespace tandem {

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

struct SampledToken {
  TokenId id = 0;
  // Of the model's own distribution, before penalties, temperature and truncation. Set if asked
  // for.
  float logprob = 0;
  std::vector<TokenLogprob> top = {};  // descending
};

}  // namespace tandem
