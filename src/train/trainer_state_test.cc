// Saved states: exact, atomic, and refused with a reason.
#include "train/trainer_state.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/cases.h"
#include "support/temp_folder.h"

namespace tandem::train {
namespace {

TrainerState state_at(std::int64_t step) {
  TrainerState state;
  state.layout = "a:4";
  state.counters = {{"step", step}, {"adapter_version", step + 7}};
  state.buffers = {{"partial", std::string("\0x\xff", 3)}, {"empty", ""}};
  state.values = {1.5f, -0.0f, 1e-42f, static_cast<float>(step)};
  state.optimiser = {step, {0.1f, 0.2f, 0.3f, 0.4f}, {1e-30f, 2, 3, 4}};
  return state;
}

TEST(TrainerStateTest, comes_back_exactly_and_old_ones_go) {
  TempFolder folder;
  for (const std::int64_t step : {1, 2, 10, 9}) {
    ASSERT_TRUE(save_state(state_at(step), folder.path(), 2));
  }
  const auto loaded = load_newest_state(folder.path(), "a:4");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(*loaded == state_at(10));
  EXPECT_TRUE(std::signbit(loaded->values[1]));
  EXPECT_TRUE(std::filesystem::exists(folder / "step_9"));
  EXPECT_FALSE(std::filesystem::exists(folder / "step_2"));
}

// A run that was killed while it wrote leaves an unfinished folder.
TEST(TrainerStateTest, what_is_unfinished_is_ignored_and_overwritten) {
  TempFolder folder;
  ASSERT_TRUE(save_state(state_at(3), folder.path(), 2));
  std::filesystem::create_directories(folder / "unfinished");
  write_text(folder / "unfinished" / "state.safetensors", "half of it");
  EXPECT_EQ(load_newest_state(folder.path(), "a:4")->counters.at("step"), 3);
  ASSERT_TRUE(save_state(state_at(4), folder.path(), 2));
  EXPECT_TRUE(*load_newest_state(folder.path(), "a:4") == state_at(4));
}

TEST(TrainerStateTest, refusals_name_the_file) {
  TempFolder folder;
  const auto none = load_newest_state(folder.path(), "a:4");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, StatusCode::kNotFound);
  ASSERT_TRUE(save_state(state_at(3), folder.path(), 2));
  const auto other = load_newest_state(folder.path(), "b:4");
  ASSERT_FALSE(other);
  expect_one_line(other.error().message, {"step_3", "a:4", "b:4"});
  write_text(folder / "step_3" / "state.json", "{}");
  const auto damaged = load_newest_state(folder.path(), "a:4");
  ASSERT_FALSE(damaged);
  expect_one_line(damaged.error().message, {"state.json"});
}

}  // namespace
}  // namespace tandem::train
