// AdamW over flat arrays, gradient clipping and learning-rate schedules. Deterministic: one thread,
// fixed order.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem::train {

struct AdamWConfig {
  float beta1 = 0.9f;
  float beta2 = 0.98f;
  float epsilon = 1e-8f;
  float weight_decay = 0;  // decoupled: values shrink by rate * weight_decay a step
  // Only the first so many values decay: matrices, not norms.
  std::size_t decayed = std::numeric_limits<std::size_t>::max();
};

// Moments of the gradients and the number of steps taken; all that a resumed run needs.
struct AdamWState {
  std::int64_t steps = 0;
  std::vector<float> first, second;  // as long as the values
};

// Decoupled weight decay (Loshchilov and Hutter 2019), moments corrected for their start at zero.
class AdamW {
 public:
  AdamW(const AdamWConfig& config, std::size_t size);

  // values -= rate * (m / (sqrt(v) + epsilon) + weight_decay * values). All of one length.
  void step(std::span<float> values, std::span<const float> gradients, float rate);

  const AdamWState& state() const { return state_; }
  void restore(AdamWState state);

 private:
  AdamWConfig config_;
  AdamWState state_;
};

// The Euclidean norm, summed in double in ascending order.
double gradient_norm(std::span<const float> gradients);

// Scales gradients down to a norm of `limit` if theirs is larger, and returns the norm before.
// Gradients that are not finite are an error and stay as they are: a step with them would spoil the
// values for good.
Result<double> clip_gradients(std::span<float> gradients, double limit);

enum class Schedule { kConstant, kLinear, kCosine };
Result<Schedule> parse_schedule(std::string_view name);

// The learning rate rises linearly over `warmup_steps`, then stays, or falls to `final_share` of
// its peak at `total_steps` and stays there.
struct RateSchedule {
  Schedule kind = Schedule::kConstant;
  float peak = 1e-5f;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  // kLinear and kCosine
  float final_share = 0;

  // For step 0, 1, ...
  float rate_at(std::int64_t step) const;
};

}  // namespace tandem::train
