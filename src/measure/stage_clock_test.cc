#include "measure/stage_clock.h"

#include <gtest/gtest.h>

#include "base/fake_clock.h"
#include "measure/summary.h"

namespace tandem::measure {
namespace {

double of(const StepTimes& times, Stage stage) {
  return times.stage_s[static_cast<std::size_t>(stage)];
}

TEST(StageClockTest, time_goes_to_the_stage_that_was_entered_last) {
  FakeClock clock;
  StageClock stages(clock);
  stages.begin_step();
  clock.advance(std::chrono::milliseconds(1));  // before any stage
  stages.on_stage(Stage::kEmbed);
  clock.advance(std::chrono::milliseconds(20));
  stages.on_stage(Stage::kNorms);
  clock.advance(std::chrono::milliseconds(300));
  stages.on_stage(Stage::kEmbed);
  clock.advance(std::chrono::milliseconds(4000));
  stages.end_step();
  const StepTimes times = stages.take();
  EXPECT_DOUBLE_EQ(of(times, Stage::kEmbed), 4.02);
  EXPECT_DOUBLE_EQ(of(times, Stage::kNorms), 0.3);
  EXPECT_DOUBLE_EQ(times.wall_s, 4.321);
  EXPECT_NEAR(times.other_s(), 0.001, 1e-12);
}

TEST(StageClockTest, steps_add_up_without_the_time_between_them) {
  FakeClock clock;
  StageClock stages(clock);
  for (int step = 0; step < 3; ++step) {
    stages.begin_step();
    stages.on_stage(Stage::kHead);
    clock.advance(std::chrono::milliseconds(10));
    stages.end_step();
    clock.advance(std::chrono::milliseconds(1000));
  }
  StepTimes times = stages.take();
  EXPECT_DOUBLE_EQ(times.wall_s, 0.03);
  EXPECT_DOUBLE_EQ(of(times, Stage::kHead), 0.03);
  times = stages.take();
  EXPECT_EQ(times.wall_s, 0);
  EXPECT_EQ(of(times, Stage::kHead), 0);
}

TEST(SummaryTest, has_the_middle_and_the_ends) {
  const Summary odd = summarise({5, 1, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 5);
  EXPECT_EQ(summarise({4, 1, 2, 8}).median, 3);
  EXPECT_EQ(summarise({7}).median, 7);
}

TEST(SummaryTest, the_longest_time_is_the_lowest_rate) {
  const Summary speed = rates(12, {.median = 3, .min = 2, .max = 6});
  EXPECT_EQ(speed.median, 4);
  EXPECT_EQ(speed.min, 2);
  EXPECT_EQ(speed.max, 6);
}

}  // namespace
}  // namespace tandem::measure
