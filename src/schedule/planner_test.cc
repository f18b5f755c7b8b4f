#include "schedule/planner.h"

#include <gtest/gtest.h>

#include <numeric>

#include "schedule/planner_testing.h"

namespace tandem {
namespace {

std::vector<TokenId> text(std::int64_t tokens, TokenId first = 0) {
  std::vector<TokenId> ids(static_cast<std::size_t>(tokens));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

std::vector<TokenId> operator+(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void expect_sound(SchedulerFixture& at) {
  const Result<void> sound = at.planner->integrity_check();
  EXPECT_TRUE(sound) << sound.error().message;
  EXPECT_EQ(at.executor->faults(), 0);
}

class PlannerTest : public testing::TestWithParam<LoopMode> {
 protected:
  SchedulerSetup setup() const { return {.mode = GetParam()}; }
};

TEST_P(PlannerTest, answers_one_request) {
  SchedulerFixture at(setup());
  const RequestId id = at.add(text(50), 9);
  at.run();
  EXPECT_EQ(at.answers[id].tokens, FakeExecutor::answer(text(50), 9));
  EXPECT_EQ(at.answers[id].ends, 1);
  EXPECT_EQ(at.answers[id].ended.reason, FinishReason::kLength);
  EXPECT_EQ(at.planner->size(), 0u);
  expect_sound(at);
}

TEST_P(PlannerTest, the_next_turn_starts_where_the_last_ended) {
  SchedulerFixture at(setup());
  const RequestId first = at.add(text(50), 30);
  at.run();
  const std::vector<TokenId> next = text(50) + at.answers[first].tokens + text(10, 500);
  const RequestId second = at.add(next, 5);
  at.run();
  EXPECT_EQ(at.answers[second].tokens, FakeExecutor::answer(next, 5));
  // 79 tokens were computed; the last state on the way is that at 64.
  EXPECT_EQ(at.answers[second].ended.view.cache.cached_tokens, 64);
  EXPECT_EQ(at.answers[second].ended.view.cache.miss, CacheMiss::kNew);
  expect_sound(at);
}

TEST_P(PlannerTest, a_branch_inside_text_replays_once_and_then_starts_there) {
  SchedulerFixture at(setup());
  at.add(text(64), 1);
  at.run();
  const RequestId first = at.add(text(44) + text(20, 500), 1);
  at.run();
  const RequestId second = at.add(text(44) + text(20, 700), 1);
  at.run();
  const CacheUse replayed = at.answers[first].ended.view.cache;
  EXPECT_EQ(replayed.cached_tokens, 32);  // kept in case the end differs
  EXPECT_EQ(replayed.replayed_tokens, 12);
  EXPECT_EQ(replayed.text_tokens, 44);
  EXPECT_EQ(replayed.miss, CacheMiss::kBranch);
  EXPECT_EQ(at.answers[second].ended.view.cache.cached_tokens, 40);
  expect_sound(at);
}

TEST_P(PlannerTest, equal_prompts_at_once_are_computed_once) {
  SchedulerFixture at(setup());
  for (int i = 0; i < 4; ++i) at.add(text(100) + text(5, 1000 + 100 * i), 3);
  at.run();
  // The first computes all of it, the others their own ends and the rest of a grid step.
  EXPECT_LE(at.planner->counters().prefill_tokens, 105 + 3 * (5 + 8));
  for (const auto& [id, answer] : at.answers) EXPECT_EQ(answer.ends, 1);
  expect_sound(at);
}

TEST_P(PlannerTest, a_long_prompt_does_not_keep_a_short_one_waiting) {
  SchedulerFixture at(setup());
  const RequestId big = at.add(text(600), 1);
  at.loop->turn();
  const RequestId small = at.add(text(8, 1000), 1);
  for (int i = 0; i < 6; ++i) at.loop->turn();
  EXPECT_EQ(at.answers[small].ends, 1);
  EXPECT_EQ(at.answers[big].ends, 0);
  at.run();
  EXPECT_EQ(at.answers[big].ends, 1);
}

TEST_P(PlannerTest, under_pressure_requests_give_way_and_come_back_with_the_same_answer) {
  SchedulerSetup tight = setup();
  tight.states = 4;
  tight.pages = 40;
  SchedulerFixture at(tight);
  // Answers have been short so far: for long ones too little is set aside.
  for (int i = 0; i < 200; ++i) at.add(text(3, 1000 + i), 1);
  at.run();
  std::vector<RequestId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(at.add(text(20, 100 * i), 60));
  at.run();
  EXPECT_GT(at.planner->counters().retractions, 0);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(at.answers[ids[static_cast<std::size_t>(i)]].tokens,
              FakeExecutor::answer(text(20, 100 * i), 60));
  }
  expect_sound(at);
}

TEST_P(PlannerTest, a_request_that_fits_only_without_its_checkpoint_starts_from_nothing) {
  SchedulerSetup tight = setup();
  tight.states = 1;
  tight.pages = 20;
  SchedulerFixture at(tight);
  at.add(text(16), 1);
  at.run();
  EXPECT_GT(at.cache->usage().states, 0);
  const RequestId id = at.add(text(79), 5);
  at.run();
  EXPECT_EQ(at.answers[id].tokens, FakeExecutor::answer(text(79), 1));
  EXPECT_EQ(at.answers[id].ended.view.cache.cached_tokens, 0);
  EXPECT_EQ(at.answers[id].ended.view.cache.miss, CacheMiss::kEvicted);
  expect_sound(at);
}

TEST_P(PlannerTest, prompts_that_do_not_fit_together_are_computed_one_after_another) {
  SchedulerSetup tight = setup();
  tight.states = 4;
  tight.pages = 34;
  SchedulerFixture at(tight);
  for (int i = 0; i < 3; ++i) at.add(text(100, 1000 * i), 1);
  at.run();
  EXPECT_EQ(at.planner->counters().retractions, 0);
  EXPECT_EQ(at.planner->counters().prefill_tokens, 300);
  expect_sound(at);
}

TEST_P(PlannerTest, memory_is_set_aside_for_answers_so_that_nobody_gives_way) {
  SchedulerSetup tight = setup();
  tight.states = 4;
  tight.pages = 40;
  SchedulerFixture at(tight);
  for (int i = 0; i < 4; ++i) at.add(text(20, 100 * i), 60);
  at.run();
  EXPECT_EQ(at.planner->counters().retractions, 0);
  expect_sound(at);
}

TEST_P(PlannerTest, a_higher_priority_takes_the_place_of_a_lower_one) {
  SchedulerSetup one = setup();
  one.planner.max_running = 1;
  one.planner.preempt_above = 10;
  SchedulerFixture at(one);
  const auto add = [&](std::uint64_t id, TokenId first, int priority) {
    at.planner->add(
        {.id = RequestId{id}, .prompt = text(20, first), .max_tokens = 30, .priority = priority});
  };
  add(1, 0, 0);
  for (int i = 0; i < 5; ++i) at.loop->turn();
  add(2, 100, 10);  // not by more than the threshold
  add(3, 200, 11);
  for (int i = 0; i < 5; ++i) at.loop->turn();
  EXPECT_EQ(at.planner->counters().retractions, 1);
  at.run();
  EXPECT_EQ(at.ends, (std::vector<RequestId>{RequestId{3}, RequestId{2}, RequestId{1}}));
  EXPECT_EQ(at.answers[RequestId{1}].tokens, FakeExecutor::answer(text(20), 30));
  EXPECT_EQ(at.answers[RequestId{1}].ended.view.retractions, 1);
  expect_sound(at);
}

TEST_P(PlannerTest, nobody_gives_way_to_a_request_that_this_step_has_no_tokens_left_for) {
  SchedulerSetup some = setup();
  some.planner.preempt_above = 0;
  SchedulerFixture at(some);
  at.planner->add({.id = RequestId{1}, .prompt = text(92), .max_tokens = 3});
  at.loop->turn();
  at.loop->turn();
  at.planner->add({.id = RequestId{2}, .prompt = text(20, 500), .max_tokens = 3, .priority = 1});
  at.loop->turn();  // computes the last 28 of 92 tokens: 4 of 32 are left, less than a grid step
  at.run();
  EXPECT_EQ(at.planner->counters().retractions, 0);
  EXPECT_EQ(at.answers[RequestId{2}].tokens, FakeExecutor::answer(text(20, 500), 3));
  expect_sound(at);
}

TEST_P(PlannerTest, a_low_number_may_mean_a_high_priority) {
  SchedulerSetup reversed = setup();
  reversed.planner.max_running = 1;
  reversed.planner.low_priority_first = true;
  SchedulerFixture at(reversed);
  for (const int priority : {5, 1, 3}) {
    at.planner->add({.id = RequestId{static_cast<std::uint64_t>(priority)},
                     .prompt = text(20, 100 * priority),
                     .max_tokens = 2,
                     .priority = priority});
  }
  at.run();
  EXPECT_EQ(at.ends, (std::vector<RequestId>{RequestId{1}, RequestId{3}, RequestId{5}}));
}

TEST_P(PlannerTest, a_request_that_is_not_admitted_by_its_deadline_ends) {
  SchedulerSetup one = setup();
  one.planner.max_running = 1;
  SchedulerFixture at(one);
  const TimePoint soon = at.clock.now() + std::chrono::milliseconds(5);
  for (const std::uint64_t id : {1, 2}) {
    at.planner->add({.id = RequestId{id}, .prompt = text(20), .max_tokens = 30, .deadline = soon});
  }
  at.run();
  EXPECT_EQ(at.answers[RequestId{1}].ended.reason, FinishReason::kLength);
  EXPECT_EQ(at.answers[RequestId{2}].ended.status.code, StatusCode::kDeadlineExceeded);
  EXPECT_EQ(at.answers[RequestId{2}].ends, 1);
  expect_sound(at);
}

TEST_P(PlannerTest, a_request_that_ends_gives_everything_back) {
  SchedulerFixture at(setup());
  for (int steps = 0; steps < 12; ++steps) {
    const RequestId id = at.add(text(70, 100 * steps), 20);
    for (int i = 0; i < steps; ++i) at.loop->turn();
    at.loop->cancel(id);
    at.run();
    EXPECT_EQ(at.answers[id].ends, 1);
    expect_sound(at);
    const PrefixUsage cached = at.cache->usage();
    EXPECT_EQ(cached.locks, 0);
    EXPECT_EQ(at.arena->usage().taken, (EntryCounts{cached.states, cached.pages}));
  }
}

TEST_P(PlannerTest, a_stop_ends_an_answer_and_its_state_is_kept) {
  SchedulerFixture at(setup());
  const std::vector<TokenId> whole = FakeExecutor::answer(text(40), 60);
  at.stop_token = whole[30];
  const auto stops_at = static_cast<std::size_t>(
      std::find(whole.begin(), whole.end(), *at.stop_token) - whole.begin());
  const RequestId id = at.add(text(40), 60);
  at.run();
  EXPECT_EQ(at.answers[id].ended.reason, FinishReason::kStop);
  EXPECT_EQ(at.answers[id].tokens.size(), stops_at + 1);
  at.stop_token.reset();
  const std::vector<TokenId> next = text(40) + at.answers[id].tokens + text(9, 500);
  const RequestId again = at.add(next, 4);
  at.run();
  EXPECT_EQ(at.answers[again].tokens, FakeExecutor::answer(next, 4));
  expect_sound(at);
}

TEST_P(PlannerTest, without_the_cache_nothing_is_kept) {
  SchedulerSetup off = setup();
  off.planner.use_cache = false;
  SchedulerFixture at(off);
  at.add(text(50), 20);
  at.run();
  const RequestId again = at.add(text(50), 20);
  at.run();
  EXPECT_EQ(at.answers[again].ended.view.cache.cached_tokens, 0);
  EXPECT_EQ(at.arena->usage().taken, EntryCounts{});
  expect_sound(at);
}

INSTANTIATE_TEST_SUITE_P(loops, PlannerTest,
                         testing::Values(LoopMode::kSimple, LoopMode::kOverlapped),
                         [](const auto& with) {
                           return with.param == LoopMode::kSimple ? "simple" : "overlapped";
                         });

}  // namespace
}  // namespace tandem
