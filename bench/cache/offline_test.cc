#include "cache/offline.h"

#include <gtest/gtest.h>

#include <random>

#include "cache/cache_replay.h"

namespace tandem {
namespace {

// Small enough for every schedule to be tried. No segment ends on the grid, and so no prompt does.
AgentWorkload tiny_workload(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t count) { return random() % count; };
  AgentWorkload workload;
  std::vector<int> tips = {workload.add_segment(-1, 257 + below(600) * 2),
                           workload.add_segment(-1, 257 + below(600) * 2)};
  for (int i = 0; i < 6; ++i) {
    int tip = tips[below(static_cast<std::uint32_t>(tips.size()))];
    if (workload.at(tip).end_tokens > 2000) tip = tips[below(2)];
    const auto end_off_grid = [&](int parent, std::int64_t tokens) {
      const std::int64_t end = workload.at(parent).end_tokens + tokens;
      return tokens + (end % 64 == 0 ? 1 : 0);
    };
    const int message = workload.add_segment(tip, end_off_grid(tip, 70 + below(500)));
    const int answer = workload.add_segment(message, end_off_grid(message, 300 + below(300)));
    workload.turns.push_back({.message = message, .answer = answer});
    tips.push_back(answer);
  }
  return workload;
}

constexpr CacheShape kShape = {
    .state_bytes = 64 * 200, .page_bytes = 64 * 64, .page_tokens = 64, .grid_tokens = 256};
constexpr std::uint32_t kWorkloads = 200;

OfflineProblem problem_of(double budget_tokens) {
  return {.budget_tokens = budget_tokens,
          .state_tokens = kShape.state_tokens(),
          .grid_tokens = kShape.grid_tokens};
}

TEST(Offline, keeps_the_prefix_that_returns_and_not_the_one_that_does_not) {
  AgentWorkload workload;
  const int one = workload.add_segment(-1, 1000);
  const int other = workload.add_segment(-1, 1000);
  for (const int root : {one, other, one}) {
    const int message = workload.add_segment(root, 100);
    workload.turns.push_back({.message = message, .answer = workload.add_segment(message, 100)});
  }
  // A state and its rows weigh 200 + 768.
  EXPECT_EQ(greedy_offline(workload, problem_of(970)).hit_tokens, 768);
  EXPECT_EQ(exact_offline(workload, problem_of(970)), 768);
  EXPECT_GE(offline_bound(workload, problem_of(970)), 768);
  EXPECT_EQ(exact_offline(workload, problem_of(960)), 0);
  EXPECT_EQ(greedy_offline(workload, problem_of(960)).hit_tokens, 0);
}

TEST(Offline, no_schedule_beats_the_exact_one_nor_that_the_bound) {
  double greedy_sum = 0;
  double exact_sum = 0;
  for (std::uint32_t seed = 0; seed < kWorkloads; ++seed) {
    const AgentWorkload workload = tiny_workload(seed);
    for (const double budget : {1500.0, 3000.0, 5000.0}) {
      const OfflineProblem problem = problem_of(budget);
      const double greedy = greedy_offline(workload, problem).hit_tokens;
      const double exact = exact_offline(workload, problem);
      ASSERT_LE(greedy, exact) << seed;
      ASSERT_LE(exact, offline_bound(workload, problem) + 1e-6) << seed;
      greedy_sum += greedy;
      exact_sum += exact;
    }
  }
  EXPECT_GE(greedy_sum, 0.94 * exact_sum);
}

TEST(Offline, no_cache_beats_the_exact_schedule_of_an_equal_budget) {
  double cache_sum = 0;
  double exact_sum = 0;
  for (std::uint32_t seed = 0; seed < kWorkloads; ++seed) {
    const AgentWorkload workload = tiny_workload(seed);
    const CacheReplayOptions options = {.shape = kShape, .budget_tokens = 4500};
    const double cache = replay_cache(workload, options).earnings.hit_tokens;
    OfflineProblem problem = problem_of(options.budget_tokens);
    problem.first_counted = warm_up(workload);
    const double exact = exact_offline(workload, problem);
    ASSERT_LE(cache, exact) << seed;
    cache_sum += cache;
    exact_sum += exact;
  }
  EXPECT_GE(cache_sum, 0.7 * exact_sum);
}

}  // namespace
}  // namespace tandem
