#include "tensor/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tandem {
namespace {

TEST(ThreadTeamTest, every_iteration_runs_exactly_once) {
  for (int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    for (std::int64_t count : {0, 1, 7, 1000}) {
      for (std::int64_t grain : {1, 3, 64}) {
        std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
        team.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
        });
        for (auto& hit : hits) EXPECT_EQ(hit.load(), 1);
      }
    }
  }
}

TEST(ThreadTeamTest, wakes_parked_workers_again_and_again) {
  ThreadTeam team(2);
  std::int64_t total = 0;
  for (int round = 0; round < 200; ++round) {
    // Long enough between rounds, on the caller's side, that workers park in some of them.
    if (round % 20 == 0) std::this_thread::yield();
    std::atomic<std::int64_t> sum{0};
    team.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
    total += sum;
  }
  EXPECT_EQ(total, 200 * 100);
}

TEST(ThreadTeamTest, default_thread_count_is_positive) { EXPECT_GE(default_thread_count(), 1); }

}  // namespace
}  // namespace tandem
