// From logits to the next token: penalties, temperature, truncation, a counter-based draw,
// log-probs.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/sampled_token.h"
#include "base/status.h"

namespace tandem {

// Ranges as users of OpenAI's API and of SGLang know them; check_sampling_params enforces them.
struct SamplingParams {
  float temperature = 1.0f;         // >= 0; 0 is greedy
  float top_p = 1.0f;               // (0, 1]
  std::int64_t top_k = -1;          // >= 1; -1 (or 0) is off
  float min_p = 0.0f;               // [0, 1], relative to the largest probability
  float presence_penalty = 0.0f;    // [-2, 2], for tokens already generated
  float frequency_penalty = 0.0f;   // [-2, 2], times how often
  float repetition_penalty = 1.0f;  // (0, 2], for tokens of prompt and answer
  std::uint64_t seed = 0;
  // Log-probs of the chosen token and of this many best ones; -1 for none at all.
  int top_logprobs = -1;
};

inline constexpr int kMaxTopLogprobs = 20;

// The error names the field.
Result<void> check_sampling_params(const SamplingParams& params);

// Log-softmax of `logits` at `id`, in fp32 with the sum in double.
float log_prob(std::span<const float> logits, TokenId id);

// Draws the tokens of one request. The i-th draw depends on seed, i and logits alone, so the same
// request gives the same text beside any neighbours. Owned by one step loop.
class Sampler {
 public:
  // `prompt` counts for the repetition penalty.
  Sampler(const SamplingParams& params, std::span<const TokenId> prompt);

  // `logits` [vocab] is changed. Not-finite logits are an error of the model and end the request.
  Result<SampledToken> next(std::span<float> logits);

 private:
  struct Candidate {
    TokenId id;
    float logit;
    double weight;  // unnormalised probability
  };

  void apply_penalties(std::span<float> logits) const;
  TokenId draw(std::span<const float> logits);
  void select_candidates(std::span<const float> logits, float largest);

  SamplingParams params_;
  std::uint64_t draws_ = 0;
  std::unordered_map<TokenId, std::int64_t> generated_;  // how often each token was generated
  std::unordered_map<TokenId, bool> seen_;               // tokens of prompt and answer
  std::vector<Candidate> candidates_;
};

}  // namespace tandem
