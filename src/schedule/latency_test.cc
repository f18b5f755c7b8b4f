// Simulated time: how long running requests wait for each other's prompts, and prompts for each
// other.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "schedule/planner_testing.h"

namespace tandem {
namespace {

constexpr double kBudgetMs = 50;

// Steps cost what the planner's table says, times a factor that it has to learn.
class LatencyTest : public testing::Test {
 protected:
  void start(double factor) {
    SchedulerSetup setup{.states = 64, .pages = 20'000, .page_tokens = 16, .grid_tokens = 16};
    setup.planner = {.max_running = 48,
                     .prefill_chunk = 2048,
                     .step_budget_ms = kBudgetMs,
                     .min_prefill_chunk = 64,
                     .track_interval = 64};
    at_ = std::make_unique<SchedulerFixture>(setup);
    at_->executor->set_duration([this, factor](const StepPlan& plan) {
      double ms = 1;
      for (const StepRow& row : plan.rows) {
        const auto tokens = static_cast<double>(row.tokens.count);
        ms += row.tokens.count == 1 ? 0.5 : 0.1 * tokens;
      }
      ms *= factor;
      at_->clock.advance(std::chrono::microseconds(static_cast<std::int64_t>(ms * 1000)));
      return ms;
    });
  }

  std::vector<TokenId> new_text(std::int64_t tokens) {
    std::vector<TokenId> ids(static_cast<std::size_t>(tokens));
    for (TokenId& id : ids) id = next_ = (next_ * 1'103 + 12'345) % 1'000'003;
    return ids;
  }
  RequestId ask(std::int64_t prompt, std::int64_t answer) {
    return at_->add(new_text(prompt), answer);
  }

  std::unique_ptr<SchedulerFixture> at_;
  TokenId next_ = 1;
};

// Prompts arrive faster than they can be computed, for longer than anything runs.
TEST_F(LatencyTest, under_a_flood_of_prompts_running_requests_get_a_token_in_every_step_budget) {
  for (const double factor : {0.5, 1.0, 3.0}) {
    start(factor);
    for (int i = 0; i < 8; ++i) ask(20, 400);
    for (int i = 0; i < 20; ++i) at_->loop->turn();
    double worst_ms = 0;
    for (int step = 0; step < 350; ++step) {
      if (step % 2 == 0) ask(3'000, 1);
      const TimePoint before = at_->clock.now();
      at_->loop->turn();
      // After a few steps the planner knows the machine.
      if (step > 50) worst_ms = std::max(worst_ms, milliseconds(before, at_->clock.now()));
    }
    EXPECT_LE(worst_ms, 2 * kBudgetMs) << "factor " << factor;
    EXPECT_GT(at_->planner->counters().prefill_tokens, 30'000 / factor);
    at_->run();
  }
}

TEST_F(LatencyTest, a_short_request_behind_a_very_long_prompt_is_answered_soon) {
  start(1);
  const RequestId big = ask(200'000, 1);
  for (int i = 0; i < 5; ++i) at_->loop->turn();
  const TimePoint asked = at_->clock.now();
  const RequestId small = ask(101, 1);
  while (at_->answers[small].ends == 0) ASSERT_TRUE(at_->loop->turn());
  // Two full steps of the long prompt, and its own.
  EXPECT_LE(milliseconds(asked, at_->clock.now()), 3 * 0.1 * 2048 + 20);
  EXPECT_EQ(at_->answers[big].ends, 0);
  // It costs the long one next to nothing.
  at_->run();
  EXPECT_LE(milliseconds(asked, at_->clock.now()), 1.03 * 0.1 * 200'000);
}

TEST_F(LatencyTest, prompts_progress_beside_any_number_of_running_requests) {
  start(40);  // even a step without prompts is over budget
  for (int i = 0; i < 40; ++i) ask(20, 200);
  for (int i = 0; i < 60; ++i) at_->loop->turn();
  const RequestId late = ask(640, 1);
  for (int i = 0; i < 12 + 3; ++i) at_->loop->turn();
  EXPECT_EQ(at_->answers[late].ends, 1);
}

}  // namespace
}  // namespace tandem
