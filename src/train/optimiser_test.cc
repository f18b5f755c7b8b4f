// AdamW by hand-computed steps, clipping, schedules.
#include "train/optimiser.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::train {
namespace {

// Two steps of the published update, computed here in double.
TEST(AdamWTest, takes_the_published_steps) {
  const AdamWConfig config{.beta1 = 0.9f, .beta2 = 0.98f, .epsilon = 1e-6f, .weight_decay = 0.1f};
  AdamW optimiser(config, 2);
  std::vector<float> values = {1.0f, -2.0f};
  const std::vector<std::vector<float>> gradients = {{0.5f, -3.0f}, {-0.25f, -1.0f}};
  double expected[2] = {1, -2}, m[2] = {}, v[2] = {};
  for (int step = 1; step <= 2; ++step) {
    const auto& g = gradients[static_cast<std::size_t>(step - 1)];
    for (std::size_t i = 0; i < 2; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.98 * v[i] + 0.02 * g[i] * g[i];
      const double mh = m[i] / (1 - std::pow(0.9, step));
      const double vh = v[i] / (1 - std::pow(0.98, step));
      expected[i] -= 0.01 * (mh / (std::sqrt(vh) + 1e-6) + 0.1 * expected[i]);
    }
    optimiser.step(values, g, 0.01f);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(values[i], expected[i], 1e-6);
  }
}

// rl.md, I-11: what has no gradient does not move by one bit.
TEST(AdamWTest, a_zero_gradient_moves_nothing) {
  AdamW optimiser({}, 3);
  std::vector<float> values = {0.1f, -0.7f, 1e-20f};
  const std::vector<float> kept = values;
  optimiser.step(values, std::vector<float>(3), 0.5f);
  EXPECT_EQ(values, kept);
}

TEST(AdamWTest, only_the_first_values_decay) {
  AdamW optimiser({.weight_decay = 0.5f, .decayed = 1}, 2);
  std::vector<float> values = {1, 1};
  optimiser.step(values, std::vector<float>(2), 0.5f);
  EXPECT_EQ(values, (std::vector<float>{0.75f, 1}));
}

TEST(AdamWTest, a_restored_state_goes_on_bit_for_bit) {
  std::vector<float> through = {1, 2}, resumed;
  AdamW one({}, 2);
  for (int i = 0; i < 5; ++i)
    one.step(through, std::vector<float>{0.3f, -0.1f * static_cast<float>(i)}, 0.1f);
  resumed = through;
  AdamW other({}, 2);
  other.restore(one.state());
  one.step(through, std::vector<float>{1, 1}, 0.1f);
  other.step(resumed, std::vector<float>{1, 1}, 0.1f);
  EXPECT_EQ(through, resumed);
}

TEST(Clipping, scales_down_to_the_limit_and_reports_the_norm_before) {
  std::vector<float> gradients = {3, 0, -4};
  EXPECT_DOUBLE_EQ(clip_gradients(gradients, 10).value(), 5);
  EXPECT_EQ(gradients, (std::vector<float>{3, 0, -4}));
  EXPECT_DOUBLE_EQ(clip_gradients(gradients, 1).value(), 5);
  EXPECT_NEAR(gradient_norm(gradients), 1, 1e-6);
  EXPECT_NEAR(gradients[0], 0.6, 1e-6);
}

TEST(Clipping, gradients_that_are_not_finite_are_refused) {
  for (const float bad : {NAN, INFINITY}) {
    std::vector<float> gradients = {1, bad};
    EXPECT_FALSE(clip_gradients(gradients, 1));
    EXPECT_EQ(gradients[0], 1);
  }
}

TEST(RateScheduleTest, warms_up_and_falls) {
  RateSchedule schedule{.kind = Schedule::kCosine,
                        .peak = 2,
                        .warmup_steps = 4,
                        .total_steps = 14,
                        .final_share = 0.1f};
  EXPECT_FLOAT_EQ(schedule.rate_at(0), 0.5f);
  EXPECT_FLOAT_EQ(schedule.rate_at(3), 2);
  EXPECT_FLOAT_EQ(schedule.rate_at(4), 2);
  EXPECT_FLOAT_EQ(schedule.rate_at(9), 2 * (0.1f + 0.9f / 2));
  EXPECT_FLOAT_EQ(schedule.rate_at(14), 0.2f);
  EXPECT_FLOAT_EQ(schedule.rate_at(1000), 0.2f);
  schedule.kind = Schedule::kLinear;
  EXPECT_FLOAT_EQ(schedule.rate_at(6), 2 * (0.1f + 0.9f * 0.8f));
  schedule.kind = Schedule::kConstant;
  EXPECT_FLOAT_EQ(schedule.rate_at(1000), 2);
  EXPECT_FALSE(parse_schedule("step"));
  EXPECT_EQ(parse_schedule("linear").value(), Schedule::kLinear);
}

}  // namespace
}  // namespace tandem::train
