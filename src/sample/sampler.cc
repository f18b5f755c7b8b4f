#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

// Largest logit, lowest id on a tie.
TokenId arg_max(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

Result<void> check_sampling_params(const SamplingParams& p, std::int64_t vocab_size) {
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
  TRY(check_range("min_tokens", static_cast<double>(p.min_tokens), p.min_tokens >= 0, "0 or more"));
  for (const LogitBias& bias : p.logit_bias) {
    TRY(check_range("logit_bias", bias.id, bias.id >= 0 && bias.id < vocab_size,
                    fmt::format("token ids from 0 to {}", vocab_size - 1)));
    TRY(check_range("logit_bias", bias.bias, std::fabs(bias.bias) <= 100,
                    "values from -100 to 100"));
  }
  return check_range("top_logprobs", p.top_logprobs,
                     p.top_logprobs >= -1 && p.top_logprobs <= kMaxTopLogprobs, "0 to 20");
}

float log_prob(std::span<const float> logits, TokenId id) {
  return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) -
                            log_sum_exp(logits));
}

Sampler::Sampler(const SamplingParams& params, std::span<const TokenId> prompt,
                 std::span<const TokenId> stop_ids, std::unique_ptr<TokenConstraint> constraint)
    : params_(params), constraint_(std::move(constraint)) {
  if (params.min_tokens > 0) stop_ids_.assign(stop_ids.begin(), stop_ids.end());
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
  TRY(apply_constraint(logits));
  hold_back_stop_ids(logits);
  sampled.id = params_.temperature == 0 ? arg_max(logits) : draw(logits);
  ++draws_;
  if (constraint_) constraint_->accept(sampled.id);
  ++generated_[sampled.id];
  if (params_.repetition_penalty != 1.0f) seen_[sampled.id] = true;

  if (wants_logprobs) {
    return score(raw, sampled.id);
  }
  return sampled;
}

SampledToken Sampler::score(std::span<const float> logits, TokenId id) const {
  const double normaliser = log_sum_exp(logits);
  return {.id = id,
          .logprob = static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) -
                                        normaliser),
          .top = best_logprobs(logits, normaliser, std::max(0, params_.top_logprobs))};
}

void Sampler::apply_penalties(std::span<float> logits) const {
  for (const auto& [id, unused] : seen_) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
  }
  for (const LogitBias& bias : params_.logit_bias) {
    logits[static_cast<std::size_t>(bias.id)] += bias.bias;
  }
  if (params_.presence_penalty == 0 && params_.frequency_penalty == 0) return;
  for (const auto& [id, count] : generated_) {
    logits[static_cast<std::size_t>(id)] -=
        params_.presence_penalty + params_.frequency_penalty * static_cast<float>(count);
  }
}

Result<void> Sampler::apply_constraint(std::span<float> logits) {
  if (!constraint_) return {};
  const std::span<const std::uint64_t> allowed = TRY(constraint_->allowed());
  bool any = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool keep = allowed[i / 64] >> (i % 64) & 1;
    any |= keep;
    if (!keep) logits[i] = kExcluded;
  }
  if (!any) return fail(StatusCode::kInternal, "no token of the vocabulary fits the grammar");
  return {};
}

// Unless nothing else is left.
void Sampler::hold_back_stop_ids(std::span<float> logits) const {
  if (stop_ids_.empty() || draws_ >= static_cast<std::uint64_t>(params_.min_tokens)) return;
  const auto others =
      std::count_if(logits.begin(), logits.end(), [](float logit) { return logit != kExcluded; });
  std::vector<std::size_t> stops;
  for (const TokenId id : stop_ids_) {
    const auto at = static_cast<std::size_t>(id);
    if (at < logits.size() && logits[at] != kExcluded &&
        std::find(stops.begin(), stops.end(), at) == stops.end()) {
      stops.push_back(at);
    }
  }
  if (static_cast<std::size_t>(others) == stops.size()) return;
  for (const std::size_t at : stops) logits[at] = kExcluded;
}

// Fills candidates_ with the tokens that top-k, top-p and min-p leave, most probable first.
void Sampler::select_candidates(std::span<const float> logits, float largest) {
  candidates_.clear();
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double weight = std::exp(static_cast<double>(logits[i] - largest) / params_.temperature);
    if (weight == 0) continue;  // excluded, or never drawn
    total += weight;
    candidates_.push_back({static_cast<TokenId>(i), logits[i], weight});
  }
  const bool cut_k =
      params_.top_k > 0 && params_.top_k < static_cast<std::int64_t>(candidates_.size());
  if (!cut_k && params_.top_p >= 1 && params_.min_p <= 0) return;  // ancestral sampling, any order

  // Sorts only as many as are needed: a thousand first, all if their mass does not reach top_p.
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  std::size_t sorted = cut_k ? static_cast<std::size_t>(params_.top_k)
                             : std::min<std::size_t>(1024, candidates_.size());
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
