// The property test's events, long: hundreds of thousands of requests, and the leak run.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "schedule/planner_scenario.h"

namespace tandem {
namespace {

using Kind = ScenarioEvent::Kind;

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  std::uint32_t number() { return static_cast<std::uint32_t>(engine_()); }
  // In [low, high].
  std::int64_t from(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(number() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::mt19937 engine_;
};

ScenarioSetup any_setup(Random& random) {
  ScenarioSetup setup;
  setup.check_every = 100;
  SchedulerSetup& s = setup.scheduler;
  s.page_tokens = std::array{1, 4, 16}[random.number() % 3];
  s.grid_tokens = s.page_tokens * random.from(1, 3);
  s.states = random.from(2, 16);
  // Mostly too small for what is admitted: who gives way is to be tested.
  s.pages = random.number() % 4 == 0 ? random.from(2, 300) : random.from(60, 400) / s.page_tokens;
  s.planner = {
      .max_running = random.from(2, 12),
      .prefill_chunk = s.grid_tokens + random.from(0, 80),
      .step_budget_ms = static_cast<double>(random.from(1, 16)),
      .min_prefill_chunk = random.from(1, 40),
      .track_interval = s.grid_tokens * random.from(1, 3),
      .min_spacing_tokens = std::array{1, 40, 32'768}[random.number() % 3],
      .max_retractions = static_cast<int>(random.from(0, 3)),
      .estimate_deviations = static_cast<double>(std::max<std::int64_t>(0, random.from(-4, 2))),
      .use_cache = random.number() % 8 != 0};
  s.mode = random.number() % 3 == 0 ? LoopMode::kSimple : LoopMode::kOverlapped;
  if (random.number() % 2 == 0) setup.stop_token = static_cast<TokenId>(random.from(0, 96));
  return setup;
}

// Requests come about as fast as they are answered.
ScenarioEvent any_event(Random& random, std::size_t waiting) {
  constexpr std::array kKinds = {Kind::kAdd,  Kind::kAdd,  Kind::kAdd,    Kind::kFollowUp,
                                 Kind::kTurn, Kind::kTurn, Kind::kCancel, Kind::kTurn,
                                 Kind::kTurn, Kind::kTurn, Kind::kTurn,   Kind::kTurn};
  Kind kind = kKinds[random.number() % kKinds.size()];
  if (waiting > 12) kind = Kind::kTurn;
  if (random.number() % 200 == 0) kind = Kind::kDrain;
  if (random.number() % 200 == 0) kind = Kind::kWait;
  return {.kind = kind, .a = random.number(), .b = random.number()};
}

TEST(PlannerSlowTest, three_hundred_thousand_requests_get_their_foretold_answers) {
  constexpr std::int64_t kRequests = 300'000;
  constexpr std::int64_t kRequestsOfOne = 2000;
  std::int64_t requests = 0, retractions = 0, restores = 0, moves = 0, waits = 0, skipped = 0;
  for (std::uint32_t seed = 1; requests < kRequests; ++seed) {
    Random random(seed);
    const ScenarioSetup setup = any_setup(random);
    Scenario scenario(setup);
    while (scenario.requests() < kRequestsOfOne) {
      const Result<void> sound = scenario.apply(any_event(random, scenario.at().planner->queued()));
      ASSERT_TRUE(sound) << sound.error().message << " with seed " << seed << ": " << setup;
    }
    const Result<void> sound = scenario.finish();
    ASSERT_TRUE(sound) << sound.error().message << " with seed " << seed << ": " << setup;
    requests += scenario.requests();
    const PlannerCounters& counters = scenario.at().planner->counters();
    retractions += counters.retractions;
    restores += counters.restores;
    waits += counters.waits_for_prefix;
    skipped += counters.snapshots_skipped;
    moves += scenario.at().arena->counters().moves;
  }
  // What is to be tested has happened.
  EXPECT_GT(retractions, 1000);  // seldom: memory is set aside for answers as long as most
  EXPECT_GT(restores, requests / 10);
  EXPECT_GT(waits, requests / 100);
  EXPECT_GT(skipped, requests / 100);
  EXPECT_GT(moves, requests / 10);
}

TEST(PlannerSlowTest, two_thousand_requests_with_aborts_at_any_moment_leave_nothing) {
  ScenarioSetup setup;
  setup.scheduler.states = 7;
  setup.scheduler.pages = 60;
  Random random(1);
  Scenario scenario(setup);
  std::int64_t cancelled = 0;
  while (scenario.requests() < 2000) {
    ScenarioEvent event = any_event(random, scenario.at().planner->queued());
    // As many as make three of ten.
    if (10 * cancelled < 3 * scenario.requests() && scenario.at().planner->size() > 0 &&
        random.number() % 4 == 0) {
      event.kind = Kind::kCancel;
    }
    cancelled += event.kind == Kind::kCancel && scenario.at().planner->size() > 0 ? 1 : 0;
    const Result<void> sound = scenario.apply(event);
    ASSERT_TRUE(sound) << sound.error().message;
  }
  const Result<void> sound = scenario.finish();
  ASSERT_TRUE(sound) << sound.error().message;
  EXPECT_GE(10 * cancelled, 3 * scenario.requests() - 10);
}

}  // namespace
}  // namespace tandem
