// From logits to the next token: penalties, temperature, truncation, a counter-based draw,
// log-probs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/sampled_token.h"
#include "base/status.h"
#include "sample/token_constraint.h"

namespace tandem {

// Added to the logit of one token.
struct LogitBias {
  TokenId id = 0;
  float bias = 0;  // [-100, 100]
};

// Ranges as users of OpenAI's API and of SGLang know them; check_sampling_params enforces them.
struct SamplingParams {
  float temperature = 1.0f;         // >= 0; 0 is greedy
  float top_p = 1.0f;               // (0, 1]
  std::int64_t top_k = -1;          // >= 1; -1 (or 0) is off
  float min_p = 0.0f;               // [0, 1], relative to the largest probability
  float presence_penalty = 0.0f;    // [-2, 2], for tokens already generated
  float frequency_penalty = 0.0f;   // [-2, 2], times how often
  float repetition_penalty = 1.0f;  // (0, 2], for tokens of prompt and answer
  std::vector<LogitBias> logit_bias = {};
  std::int64_t min_tokens = 0;  // >= 0; stop ids are not drawn before the answer has so many
  std::uint64_t seed = 0;
  // Log-probs of the chosen token and of this many best ones; -1 for none at all.
  int top_logprobs = -1;
};

inline constexpr int kMaxTopLogprobs = 20;

// The error names the field. Ids of logit_bias have to lie in a vocabulary of `vocab_size`.
Result<void> check_sampling_params(const SamplingParams& params, std::int64_t vocab_size);

// Log-softmax of `logits` at `id`, in fp32 with the sum in double.
float log_prob(std::span<const float> logits, TokenId id);

// Draws the tokens of one request. The i-th draw depends on seed, i and logits alone, so the same
// request gives the same text beside any neighbours. Owned by one step loop.
class Sampler {
 public:
  // `prompt` counts for the repetition penalty, `stop_ids` for min_tokens. `constraint`, which may
  // be nullptr, wins over both.
  Sampler(const SamplingParams& params, std::span<const TokenId> prompt,
          std::span<const TokenId> stop_ids = {},
          std::unique_ptr<TokenConstraint> constraint = nullptr);

  // `logits` [vocab] is changed. Not-finite logits are an error of the model and end the request,
  // and so does a constraint that leaves no token.
  Result<SampledToken> next(std::span<float> logits);

  // The log-probs of a token that was not drawn here, with as many of the best ones as the request
  // asks for.
  SampledToken score(std::span<const float> logits, TokenId id) const;

 private:
  struct Candidate {
    TokenId id;
    float logit;
    double weight;  // unnormalised probability
  };

  void apply_penalties(std::span<float> logits) const;
  Result<void> apply_constraint(std::span<float> logits);
  void hold_back_stop_ids(std::span<float> logits) const;
  TokenId draw(std::span<const float> logits);
  void select_candidates(std::span<const float> logits, float largest);

  SamplingParams params_;
  std::vector<TokenId> stop_ids_;  // empty unless min_tokens holds them back
  std::unique_ptr<TokenConstraint> constraint_;
  std::uint64_t draws_ = 0;
  std::unordered_map<TokenId, std::int64_t> generated_;  // how often each token was generated
  std::unordered_map<TokenId, bool> seen_;               // tokens of prompt and answer
  std::vector<Candidate> candidates_;
};

}  // namespace tandem
