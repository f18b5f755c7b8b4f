#include "memory/prefix_placement.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using Plan = std::vector<PlannedCheckpoint>;
constexpr auto kBranch = CheckpointReason::kBranch;
constexpr auto kTurn = CheckpointReason::kTurn;
constexpr auto kGuard = CheckpointReason::kGuard;
constexpr auto kChunk = CheckpointReason::kChunk;

Plan plan(std::int64_t usable, std::int64_t branch, std::int64_t prompt, std::int64_t history = 0) {
  PrefixMatch match;
  match.usable_tokens = usable;
  match.branch_tokens = branch;
  return plan_checkpoints(match, prompt, history, {.grid_tokens = 64, .min_spacing_tokens = 1000});
}

TEST(PlacementTest, a_short_prompt_has_none) {
  EXPECT_EQ(plan(0, 0, 63), Plan{});
  EXPECT_EQ(plan(0, 0, 0), Plan{});
}

TEST(PlacementTest, a_prompt_has_one_at_its_last_grid_point) {
  EXPECT_EQ(plan(0, 0, 100), (Plan{{64, kTurn}}));
}

TEST(PlacementTest, a_prompt_that_ends_on_the_grid_has_one_a_step_before) {
  EXPECT_EQ(plan(0, 0, 128), (Plan{{64, kGuard}, {128, kTurn}}));
  EXPECT_EQ(plan(0, 0, 64), (Plan{{64, kTurn}}));
}

TEST(PlacementTest, a_divergence_has_one_at_the_branch_point) {
  EXPECT_EQ(plan(64, 256, 700), (Plan{{256, kBranch}, {640, kTurn}}));
}

TEST(PlacementTest, the_end_of_the_history_has_one) {
  EXPECT_EQ(plan(0, 0, 700, 650), (Plan{{640, kTurn}}));
  EXPECT_EQ(plan(0, 0, 700, 600), (Plan{{576, kTurn}, {640, kTurn}}));
}

TEST(PlacementTest, nothing_is_planned_up_to_where_the_request_starts) {
  EXPECT_EQ(plan(640, 0, 700, 600), Plan{});
  EXPECT_EQ(plan(576, 0, 640, 600), (Plan{{640, kTurn}}));
}

TEST(PlacementTest, a_depth_wanted_twice_is_named_once_by_the_first_reason) {
  EXPECT_EQ(plan(0, 64, 128, 64), (Plan{{64, kBranch}, {128, kTurn}}));
}

TEST(PlacementTest, a_long_prompt_has_one_every_spacing_rounded_up_to_the_grid) {
  EXPECT_EQ(plan(0, 0, 3000), (Plan{{1024, kChunk}, {2048, kChunk}, {2944, kTurn}}));
}

TEST(PlacementTest, spacing_counts_from_the_checkpoint_before) {
  EXPECT_EQ(plan(128, 640, 3000),
            (Plan{{640, kBranch}, {1664, kChunk}, {2688, kChunk}, {2944, kTurn}}));
  EXPECT_EQ(plan(2000, 0, 3000), (Plan{{2944, kTurn}}));
}

}  // namespace
}  // namespace tandem
