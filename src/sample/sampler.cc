#include "sample/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"

namespace tandem {
namespace {

Result<void> check_range(std::string_view field, double value, bool inside,
                         std::string_view expected) {
  if (inside) return {};
  return fail(Status{StatusCode::kInvalidArgument,
                     fmt::format("{}: expected {}, got {}", field, expected, value),
                     std::string(field)});
}

// log(sum(exp(logits))).
double log_sum_exp(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
  return static_cast<double>(largest) + std::log(sum);
}

std::vector<TokenLogprob> best_logprobs(std::span<const float> logits, double normaliser,
                                        int count) {
  std::vector<TokenLogprob> all(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    all[i] = {static_cast<TokenId>(i),
              static_cast<float>(static_cast<double>(logits[i]) - normaliser)};
  }
  const auto kept = std::min<std::size_t>(static_cast<std::size_t>(count), all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    [](const TokenLogprob& a, const TokenLogprob& b) {
                      return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
                    });
  all.resize(kept);
  return all;
}

// Largest logit, lowest id on a tie.
TokenId arg_max(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

Result<void> check_sampling_params(const SamplingParams& p) {
  // Written so that NaN fails every test.
  TRY(check_range("temperature", p.temperature, p.temperature >= 0 && p.temperature <= 100,
                  "0 to 100"));
  TRY(check_range("top_p", p.top_p, p.top_p > 0 && p.top_p <= 1, "above 0, at most 1"));
  TRY(check_range("top_k", static_cast<double>(p.top_k), p.top_k >= -1, "-1, 0 or a count"));
  TRY(check_range("min_p", p.min_p, p.min_p >= 0 && p.min_p <= 1, "0 to 1"));
  TRY(check_range("presence_penalty", p.presence_penalty, std::fabs(p.presence_penalty) <= 2,
                  "-2 to 2"));
  TRY(check_range("frequency_penalty", p.frequency_penalty, std::fabs(p.frequency_penalty) <= 2,
                  "-2 to 2"));
  TRY(check_range("repetition_penalty", p.repetition_penalty,
                  p.repetition_penalty > 0 && p.repetition_penalty <= 2, "above 0, at most 2"));
  return check_range("top_logprobs", p.top_logprobs,
                     p.top_logprobs >= -1 && p.top_logprobs <= kMaxTopLogprobs, "0 to 20");
}

float log_prob(std::span<const float> logits, TokenId id) {
  return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) -
                            log_sum_exp(logits));
}

Sampler::Sampler(const SamplingParams& params, std::span<const TokenId> prompt) : params_(params) {
  if (params.repetition_penalty == 1.0f) return;
  for (TokenId id : prompt) seen_[id] = true;
}

Result<SampledToken> Sampler::next(std::span<float> logits) {
  if (!std::all_of(logits.begin(), logits.end(),
                   [](float logit) { return std::isfinite(logit); })) {
    return fail(StatusCode::kInternal, "the model produced logits that are not finite");
  }
  SampledToken sampled;
  // Only where asked for: a pass over the vocabulary with exponentials costs more than the argmax.
  const bool wants_logprobs = params_.top_logprobs >= 0;
  std::vector<float> raw;
  if (wants_logprobs) raw.assign(logits.begin(), logits.end());

  apply_penalties(logits);
  sampled.id = params_.temperature == 0 ? arg_max(logits) : draw(logits);
  ++draws_;
  ++generated_[sampled.id];
  if (params_.repetition_penalty != 1.0f) seen_[sampled.id] = true;

  if (wants_logprobs) {
    const double normaliser = log_sum_exp(raw);
    sampled.logprob = static_cast<float>(
        static_cast<double>(raw[static_cast<std::size_t>(sampled.id)]) - normaliser);
    sampled.top = best_logprobs(raw, normaliser, params_.top_logprobs);
  }
  return sampled;
}

void Sampler::apply_penalties(std::span<float> logits) const {
  for (const auto& [id, unused] : seen_) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
  }
  if (params_.presence_penalty == 0 && params_.frequency_penalty == 0) return;
  for (const auto& [id, count] : generated_) {
    logits[static_cast<std::size_t>(id)] -=
        params_.presence_penalty + params_.frequency_penalty * static_cast<float>(count);
  }
}

// Fills candidates_ with the tokens that top-k, top-p and min-p leave, most probable first.
void Sampler::select_candidates(std::span<const float> logits, float largest) {
  candidates_.clear();
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double weight = std::exp(static_cast<double>(logits[i] - largest) / params_.temperature);
    total += weight;
    candidates_.push_back({static_cast<TokenId>(i), logits[i], weight});
  }
  const bool cut_k = params_.top_k > 0 && params_.top_k < static_cast<std::int64_t>(logits.size());
  if (!cut_k && params_.top_p >= 1 && params_.min_p <= 0) return;  // ancestral sampling, any order

  // Sorts only as many as are needed: a thousand first, all if their mass does not reach top_p.
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  std::size_t sorted =
      cut_k ? static_cast<std::size_t>(params_.top_k) : std::min<std::size_t>(1024, logits.size());
  const auto sort_first = [&](std::size_t count) {
    std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(count),
                      candidates_.end(), before);
  };
  sort_first(sorted);
  if (cut_k) {
    candidates_.resize(sorted);
    total = 0;
    for (const Candidate& candidate : candidates_) total += candidate.weight;
  }

  std::size_t kept = 0;
  double mass = 0;
  while (kept < candidates_.size() &&
         (kept == 0 || mass < static_cast<double>(params_.top_p) * total)) {
    if (kept == sorted) sort_first(sorted = candidates_.size());
    // Weights are relative to the most probable token, which is what min_p is relative to.
    if (kept > 0 && candidates_[kept].weight < static_cast<double>(params_.min_p)) break;
    mass += candidates_[kept++].weight;
  }
  candidates_.resize(kept);
}

TokenId Sampler::draw(std::span<const float> logits) {
  select_candidates(logits, *std::max_element(logits.begin(), logits.end()));
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  double left = philox_uniform(params_.seed, draws_) * total;
  for (const Candidate& candidate : candidates_) {
    left -= candidate.weight;
    if (left < 0) return candidate.id;
  }
  return candidates_.back().id;  // rounding only
}

}  // namespace tandem
