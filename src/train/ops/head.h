// From logits to log-probs and entropy, with their gradient. Conventions: ops/norm.h.
#pragma once

#include <span>

#include "base/ids.h"
#include "train/rows.h"

namespace tandem::train {

// What a policy says about one token that follows a row.
struct TokenScore {
  double log_prob = 0;  // log softmax(logits / temperature) at the token
  double entropy = 0;   // of softmax(logits / temperature), nats
};
// dLoss / d of each.
struct TokenScoreGradient {
  double log_prob = 0;
  double entropy = 0;
};

// Scores of `targets`, one a row of logits. At temperature 1 the log-prob of fp32 logits is the
// sampler's (sample/sampler.h) bit for bit: the sum in double, one rounding to fp32 at the end.
template <typename T>
void score_tokens(ConstRows<T> logits, std::span<const TokenId> targets, float temperature,
                  std::span<TokenScore> scores);

// Overwrites dlogits: g_l (onehot - p) / T + g_H (-p (log p + H)) / T. It may alias logits.
template <typename T>
void score_tokens_backward(ConstRows<T> logits, std::span<const TokenId> targets, float temperature,
                           std::span<const TokenScoreGradient> gradients, Rows<T> dlogits);

}  // namespace tandem::train
