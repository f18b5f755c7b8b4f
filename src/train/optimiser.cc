#include "train/optimiser.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tandem::train {

AdamW::AdamW(const AdamWConfig& config, std::size_t size) : config_(config) {
  state_.first.assign(size, 0);
  state_.second.assign(size, 0);
}

void AdamW::restore(AdamWState state) {
  CHECK(state.first.size() == state_.first.size() && state.second.size() == state_.second.size(),
        "moments of {} and {} values for {}", state.first.size(), state.second.size(),
        state_.first.size());
  state_ = std::move(state);
}

void AdamW::step(std::span<float> values, std::span<const float> gradients, float rate) {
  CHECK(values.size() == state_.first.size() && gradients.size() == values.size(),
        "{} values, {} gradients, {} moments", values.size(), gradients.size(),
        state_.first.size());
  ++state_.steps;
  const auto power = static_cast<double>(state_.steps);
  const auto first_share =
      static_cast<float>(1 - std::pow(static_cast<double>(config_.beta1), power));
  const auto second_share =
      static_cast<float>(1 - std::pow(static_cast<double>(config_.beta2), power));
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& m = state_.first[i];
    float& v = state_.second[i];
    const float g = gradients[i];
    m = config_.beta1 * m + (1 - config_.beta1) * g;
    v = config_.beta2 * v + (1 - config_.beta2) * g * g;
    const float move = m / first_share / (std::sqrt(v / second_share) + config_.epsilon);
    const float decay = i < config_.decayed ? config_.weight_decay : 0;
    values[i] -= rate * (move + decay * values[i]);
  }
}

double gradient_norm(std::span<const float> gradients) {
  double squares = 0;
  for (const float g : gradients) squares += static_cast<double>(g) * g;
  return std::sqrt(squares);
}

Result<double> clip_gradients(std::span<float> gradients, double limit) {
  const double norm = gradient_norm(gradients);
  if (!std::isfinite(norm)) {
    return fail(StatusCode::kInternal, "the gradient's norm is {}: the step is not taken", norm);
  }
  if (norm > limit) {
    const auto factor = static_cast<float>(limit / norm);
    for (float& g : gradients) g *= factor;
  }
  return norm;
}

Result<Schedule> parse_schedule(std::string_view name) {
  if (name == "constant") return Schedule::kConstant;
  if (name == "linear") return Schedule::kLinear;
  if (name == "cosine") return Schedule::kCosine;
  return invalid("schedule: expected constant, linear or cosine, got '{}'", name);
}

float RateSchedule::rate_at(std::int64_t step) const {
  if (step < warmup_steps) {
    return peak * static_cast<float>(step + 1) / static_cast<float>(warmup_steps);
  }
  if (kind == Schedule::kConstant || total_steps <= warmup_steps) return peak;
  const double way = std::min(1.0, static_cast<double>(step - warmup_steps) /
                                       static_cast<double>(total_steps - warmup_steps));
  const double left =
      kind == Schedule::kLinear ? 1 - way : (1 + std::cos(std::numbers::pi * way)) / 2;
  return static_cast<float>(peak * (final_share + (1 - static_cast<double>(final_share)) * left));
}

}  // namespace tandem::train
