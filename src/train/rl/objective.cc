#include "train/rl/objective.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace tandem::train {
namespace {

constexpr double kMaxLogRatio = 20;
constexpr double kMaxLowVarianceKl = 10;

// A log-ratio cut to +-20, and whether it still follows the log-prob that it came from.
struct LogRatio {
  double value = 0;
  bool moves = false;

  explicit LogRatio(double raw) {
    if (std::isnan(raw)) return;
    value = std::clamp(raw, -kMaxLogRatio, kMaxLogRatio);
    moves = value == raw;
  }
};

// A value and its derivative by the policy's log-prob.
struct Slope {
  double value = 0;
  double slope = 0;
};

Slope kl_estimate(KlEstimator kind, double policy, double reference) {
  const double r = policy - reference;
  switch (kind) {
    case KlEstimator::kK1:
      return {r, 1};
    case KlEstimator::kK2:
      return {r * r / 2, r};
    case KlEstimator::kK3:
      return {std::exp(-r) - 1 + r, 1 - std::exp(-r)};
    case KlEstimator::kLowVariance: {
      const LogRatio cut(r);
      const double k3 = std::exp(-cut.value) - 1 + cut.value;
      if (k3 > kMaxLowVarianceKl) return {kMaxLowVarianceKl, 0};
      return {k3, cut.moves ? 1 - std::exp(-cut.value) : 0};
    }
  }
  return {};
}

// The clipped loss of a ratio, by the ratio.
struct ClippedLoss {
  double value = 0;
  double by_ratio = 0;
  bool clipped = false;
};

ClippedLoss clipped_loss(const ObjectiveConfig& config, double ratio, double advantage) {
  const double plain = -ratio * advantage;
  const double cut = -std::clamp(ratio, 1 - config.clip_low, 1 + config.clip_high) * advantage;
  ClippedLoss loss{std::max(plain, cut), plain >= cut ? -advantage : 0, cut > plain};
  if (config.dual_clip && advantage < 0 && loss.value > -*config.dual_clip * advantage) {
    loss.value = -*config.dual_clip * advantage;
    loss.by_ratio = 0;
  }
  return loss;
}

// Whether a sample has drifted so far the wrong way that it is left out.
bool off_policy(const ObjectiveConfig& config, const SampleScores& sample) {
  if (!config.off_policy_delta || sample.advantage >= 0) return false;
  double sum = 0;
  for (std::size_t t = 0; t < sample.policy.size(); ++t) {
    if (sample.counts(t)) sum += sample.old[t] - sample.policy[t];
  }
  return sum >
         *config.off_policy_delta * static_cast<double>(std::max<std::int64_t>(sample.tokens(), 1));
}

void add_token_ratios(const ObjectiveConfig& config, const SampleScores& sample, double weight,
                      std::span<const double> factors, SampleObjective& out) {
  for (std::size_t t = 0; t < sample.policy.size(); ++t) {
    if (!sample.counts(t)) continue;
    const LogRatio log_ratio(sample.policy[t] - sample.old[t]);
    const double ratio = std::exp(log_ratio.value);
    const ClippedLoss loss = clipped_loss(config, ratio, sample.advantage);
    const double scale = weight * (factors.empty() ? 1.0 : factors[t]);
    out.sums.loss += scale * loss.value;
    out.sums.clipped += loss.clipped ? 1 : 0;
    out.sums.old_minus_policy -= log_ratio.value;
    if (log_ratio.moves) out.gradients[t].log_prob += scale * loss.by_ratio * ratio;
  }
}

void add_sequence_ratio(const ObjectiveConfig& config, const SampleScores& sample, double weight,
                        std::span<const double> factors, SampleObjective& out) {
  const auto tokens = static_cast<double>(sample.tokens());
  if (tokens == 0) return;
  double sum = 0, scale = 0;
  for (std::size_t t = 0; t < sample.policy.size(); ++t) {
    if (!sample.counts(t)) continue;
    sum += LogRatio(sample.policy[t] - sample.old[t]).value;
    scale += weight * (factors.empty() ? 1.0 : factors[t]);
  }
  const double ratio = std::exp(sum / tokens);
  const ClippedLoss loss = clipped_loss(config, ratio, sample.advantage);
  out.sums.loss += scale * loss.value;
  out.sums.clipped += loss.clipped ? sample.tokens() : 0;
  out.sums.old_minus_policy -= sum;
  for (std::size_t t = 0; t < sample.policy.size(); ++t) {
    if (!sample.counts(t) || !LogRatio(sample.policy[t] - sample.old[t]).moves) continue;
    out.gradients[t].log_prob += scale * loss.by_ratio * ratio / tokens;
  }
}

void add_kl(const ObjectiveConfig& config, const SampleScores& sample, double weight,
            SampleObjective& out) {
  for (std::size_t t = 0; t < sample.policy.size(); ++t) {
    if (!sample.counts(t)) continue;
    Slope kl = kl_estimate(config.kl, sample.policy[t], sample.reference[t]);
    if (config.unbiased_kl) {
      const LogRatio log_ratio(sample.policy[t] - sample.old[t]);
      const double ratio = std::exp(log_ratio.value);
      kl = {ratio * kl.value, ratio * (kl.slope + (log_ratio.moves ? kl.value : 0))};
    }
    out.sums.kl += weight * kl.value;
    out.sums.loss += config.kl_coefficient * weight * kl.value;
    out.gradients[t].log_prob += config.kl_coefficient * weight * kl.slope;
  }
}

}  // namespace

std::vector<double> token_weights(LossAggregation aggregation, std::span<const std::int64_t> tokens,
                                  std::span<const std::int64_t> groups, std::int64_t max_tokens) {
  CHECK(tokens.size() == groups.size(), "{} lengths of {} samples", tokens.size(), groups.size());
  const auto samples = static_cast<double>(tokens.size());
  std::int64_t total = 0;
  std::map<std::int64_t, std::int64_t> by_group;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    total += tokens[i];
    by_group[groups[i]] += tokens[i];
  }
  const auto share = [](std::int64_t count) {
    return 1.0 / static_cast<double>(std::max<std::int64_t>(count, 1));
  };
  std::vector<double> weights;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    switch (aggregation) {
      case LossAggregation::kSampleMean:
        weights.push_back(share(tokens[i]) / samples);
        break;
      case LossAggregation::kTokenMean:
        weights.push_back(share(total));
        break;
      case LossAggregation::kConstant:
        weights.push_back(share(max_tokens) / samples);
        break;
      case LossAggregation::kPromptTokenMean:
        weights.push_back(share(by_group[groups[i]]) / static_cast<double>(by_group.size()));
        break;
    }
  }
  return weights;
}

std::int64_t SampleScores::tokens() const {
  if (mask.empty()) return static_cast<std::int64_t>(policy.size());
  return std::count_if(mask.begin(), mask.end(), [](std::uint8_t m) { return m != 0; });
}

std::vector<double> correction_factors(const CorrectionConfig& config, const SampleScores& sample) {
  std::vector<double> factors(sample.old.size(), 1.0);
  if (config.kind == Correction::kNone && config.veto_below == 0) return factors;
  CHECK(sample.behaviour.size() == factors.size(), "{} behaviour log-probs of {} tokens",
        sample.behaviour.size(), factors.size());
  double log_sum = 0, count = 0, smallest = INFINITY;
  std::vector<double> log_weights;
  for (std::size_t t = 0; t < factors.size(); ++t) {
    log_weights.push_back(LogRatio(sample.old[t] - sample.behaviour[t]).value);
    if (!sample.counts(t)) continue;
    log_sum += log_weights.back();
    count += 1;
    smallest = std::min(smallest, std::exp(log_weights.back()));
  }
  if (smallest < config.veto_below) return std::vector<double>(factors.size(), 0.0);
  if (config.kind == Correction::kNone) return factors;
  for (std::size_t t = 0; t < factors.size(); ++t) {
    double log_weight = log_weights[t];
    if (config.level != CorrectionLevel::kToken) {
      log_weight =
          config.level == CorrectionLevel::kSequence ? log_sum : log_sum / std::max(count, 1.0);
    }
    const double w = std::exp(LogRatio(log_weight).value);
    const bool inside = w >= config.low && w <= config.high;
    if (config.kind == Correction::kTruncate) {
      factors[t] = std::clamp(w, config.low, config.high);
    } else {
      factors[t] = inside ? w : 0;
    }
  }
  return factors;
}

SampleObjective sample_objective(const ObjectiveConfig& config, const SampleScores& sample,
                                 double weight, std::span<const double> factors,
                                 std::span<const double> entropy) {
  SampleObjective out;
  out.gradients.resize(sample.policy.size());
  out.sums.tokens = sample.tokens();
  if (off_policy(config, sample)) {
    out.sums.left_out = out.sums.tokens;
  } else if (config.ratio == ObjectiveConfig::Ratio::kSequence) {
    add_sequence_ratio(config, sample, weight, factors, out);
  } else {
    add_token_ratios(config, sample, weight, factors, out);
  }
  if (config.kl_coefficient != 0) add_kl(config, sample, weight, out);
  if (config.entropy_coefficient != 0) {
    for (std::size_t t = 0; t < sample.policy.size(); ++t) {
      if (!sample.counts(t)) continue;
      out.sums.loss -= config.entropy_coefficient * weight * entropy[t];
      out.gradients[t].entropy -= config.entropy_coefficient * weight;
    }
  }
  return out;
}

void PolicyMismatch::add(const SampleScores& sample) {
  for (std::size_t t = 0; t < sample.old.size(); ++t) {
    if (!sample.counts(t)) continue;
    const double r = sample.old[t] - sample.behaviour[t];
    ++tokens;
    abs_difference += std::fabs(r);
    max_difference = std::max(max_difference, std::fabs(r));
    const double w = std::exp(LogRatio(r).value);
    kl += w - 1 - r;
    weight_sum += w;
    weight_squares += w * w;
  }
}

double PolicyMismatch::mean_abs_difference() const {
  return tokens == 0 ? 0 : abs_difference / static_cast<double>(tokens);
}
double PolicyMismatch::mean_kl() const {
  return tokens == 0 ? 0 : kl / static_cast<double>(tokens);
}
double PolicyMismatch::effective_sample_share() const {
  return tokens == 0 ? 1 : weight_sum * weight_sum / (static_cast<double>(tokens) * weight_squares);
}

}  // namespace tandem::train
