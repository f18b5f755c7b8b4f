#include "engine/model_executor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace tandem {
namespace {

constexpr std::int64_t kPageTokens = 16;

// A model, an executor over three states and eight pages, and plans by hand.
class ModelExecutorTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto model = Model::load(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/golden/k3_tiny",
                             Precision::kExact, cpu_kernels());
    ASSERT_TRUE(model) << model.error().message;
    model_ = *std::move(model);
    const StateLayout& layout = model_->memory().total;
    geometry_ = {.state_bytes = entry_bytes(layout.state_bytes),
                 .page_bytes = entry_bytes(layout.row_bytes * kPageTokens)};
    geometry_.budget_bytes =
        geometry_.sink_bytes() + 3 * geometry_.state_bytes + 8 * geometry_.page_bytes;
    executor_ = *ModelExecutor::create(
        *model_, geometry_, {.threads = 1, .page_tokens = kPageTokens, .background = GetParam()},
        clock_);
    std::fill(executor_->bytes().begin(), executor_->bytes().end(), std::byte{0x7F});
  }

  // Tokens [0, count) of a prompt from nothing, with the state kept after `keep` of them.
  StepPlan prompt_plan(std::int64_t count, std::int64_t keep) const {
    StepPlan plan;
    plan.sequence = 1;
    plan.clears = {state(0)};
    plan.tokens.resize(static_cast<std::size_t>(count));
    std::iota(plan.tokens.begin(), plan.tokens.end(), 5);
    for (int i = 0; i < 4; ++i) plan.page_offsets.push_back(geometry_.offset(EntryKind::kPage, i));
    plan.rows = {{.request = kRequest,
                  .tokens = {0, static_cast<std::size_t>(count)},
                  .samples = true,
                  .state_offset = state(0),
                  .pages = {0, 4}}};
    plan.snapshots = {{.row = 0, .tokens = keep, .dst_offset = state(1)}};
    return plan;
  }
  std::int64_t state(std::int64_t index) const {
    return geometry_.offset(EntryKind::kState, index);
  }
  std::vector<std::byte> state_bytes(std::int64_t index) const {
    const std::byte* begin = executor_->bytes().data() + state(index);
    return {begin, begin + model_->memory().total.state_bytes};
  }

  static constexpr RequestId kRequest{7};
  SystemClock clock_;
  std::unique_ptr<Model> model_;
  ArenaGeometry geometry_;
  std::unique_ptr<ModelExecutor> executor_;
};

TEST_P(ModelExecutorTest, a_snapshot_is_the_state_at_its_depth_bit_for_bit) {
  executor_->open(kRequest, Sampler({.temperature = 0}, {}));
  const StepPlan whole = prompt_plan(40, 16);
  executor_->launch(whole);
  const StepResult first = executor_->wait();
  const auto kept = state_bytes(1), end = state_bytes(0);

  // From the snapshot on, in other pages of the same rows.
  StepPlan rest;
  rest.sequence = 2;
  rest.restores = {{state(1), state(2)}};
  rest.tokens.assign(whole.tokens.begin() + 16, whole.tokens.end());
  rest.page_offsets = whole.page_offsets;
  rest.rows = {{.request = kRequest,
                .start = 16,
                .tokens = {0, 24},
                .samples = true,
                .state_offset = state(2),
                .pages = {0, 4}}};
  executor_->launch(rest);
  const StepResult second = executor_->wait();
  EXPECT_EQ(second.sequence, 2u);
  EXPECT_EQ(second.samples[0]->id, first.samples[0]->id);
  EXPECT_EQ(state_bytes(2), end);
  EXPECT_EQ(state_bytes(1), kept);  // restoring copies
  EXPECT_NE(kept, end);
}

// The planner gives the snapshots of a prompt to the cache when it plans them: they must be written
// although nobody waits for the request any more.
TEST_P(ModelExecutorTest, a_forgotten_prompt_still_leaves_its_snapshot) {
  executor_->open(kRequest, Sampler({.temperature = 0}, {}));
  const StepPlan plan = prompt_plan(40, 32);
  executor_->launch(plan);
  executor_->wait();
  const auto expected = state_bytes(1);

  std::fill(executor_->bytes().begin(), executor_->bytes().end(), std::byte{0x7F});
  executor_->forget(kRequest);
  executor_->launch(plan);
  const StepResult result = executor_->wait();
  EXPECT_EQ(state_bytes(1), expected);
  EXPECT_EQ(result.samples.size(), 1u);
}

TEST_P(ModelExecutorTest, a_forgotten_answer_is_left_out_and_its_neighbours_are_not) {
  constexpr RequestId kOther{8};
  executor_->open(kOther, Sampler({.temperature = 0}, {}));
  StepPlan plan = prompt_plan(20, 16);
  plan.rows[0].request = kOther;
  plan.clears.push_back(state(2));
  plan.tokens.push_back(-1);
  for (int i = 4; i < 6; ++i) plan.page_offsets.push_back(geometry_.offset(EntryKind::kPage, i));
  plan.rows.push_back({.request = kRequest,
                       .start = 0,
                       .tokens = {20, 1},
                       .follows_sample = true,
                       .samples = true,
                       .state_offset = state(2),
                       .pages = {4, 2}});
  executor_->launch(plan);
  const StepResult result = executor_->wait();
  ASSERT_EQ(result.samples.size(), 2u);
  EXPECT_TRUE(result.samples[0]);
  EXPECT_EQ(state_bytes(2), std::vector<std::byte>(state_bytes(2).size()));
}

INSTANTIATE_TEST_SUITE_P(threads, ModelExecutorTest, testing::Bool(),
                         [](const auto& with) { return with.param ? "background" : "inline"; });

}  // namespace
}  // namespace tandem
