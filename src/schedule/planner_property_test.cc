// Random days on random small arenas: whatever happens, every answer is the foretold one.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "schedule/planner_scenario.h"

namespace tandem {
namespace {

using Kind = ScenarioEvent::Kind;

// Independent of RapidCheck's size, so that small examples are varied, too.
std::int64_t from(std::int64_t low, std::int64_t high) {
  return *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(low, high + 1));
}

rc::Gen<ScenarioEvent> any_event() {
  const auto number = rc::gen::resize(100, rc::gen::inRange<std::uint32_t>(0, 1'000'000));
  return rc::gen::map(rc::gen::tuple(rc::gen::weightedElement<Kind>({{5, Kind::kAdd},
                                                                     {3, Kind::kFollowUp},
                                                                     {10, Kind::kTurn},
                                                                     {2, Kind::kCancel},
                                                                     {1, Kind::kDrain},
                                                                     {1, Kind::kWait}}),
                                     number, number),
                      [](const std::tuple<Kind, std::uint32_t, std::uint32_t>& drawn) {
                        const auto [kind, a, b] = drawn;
                        return ScenarioEvent{.kind = kind, .a = a, .b = b};
                      });
}

ScenarioSetup any_setup() {
  ScenarioSetup setup;
  SchedulerSetup& s = setup.scheduler;
  s.page_tokens = *rc::gen::element<std::int64_t>(1, 4, 16);
  s.grid_tokens = s.page_tokens * *rc::gen::element<std::int64_t>(1, 2, 3);
  // From what holds two grid steps of one request to what holds everything.
  s.states = from(1, 9);
  s.pages = *rc::gen::weightedOneOf<std::int64_t>({{2, rc::gen::inRange<std::int64_t>(2, 12)},
                                                   {3, rc::gen::inRange<std::int64_t>(8, 80)},
                                                   {1, rc::gen::just<std::int64_t>(600)}});
  s.planner = {.max_running = from(1, 8),
               .prefill_chunk = s.grid_tokens + from(0, 60),
               .step_budget_ms = static_cast<double>(from(1, 12)),
               .min_prefill_chunk = from(1, 40),
               .track_interval = s.grid_tokens * from(1, 3),
               .min_spacing_tokens = *rc::gen::element<std::int64_t>(1, 40, 32'768),
               .max_retractions = static_cast<int>(from(0, 3)),
               .estimate_deviations = static_cast<double>(from(0, 2)),
               .use_cache = *rc::gen::weightedElement<bool>({{4, true}, {1, false}})};
  s.mode = *rc::gen::element(LoopMode::kSimple, LoopMode::kOverlapped);
  if (*rc::gen::arbitrary<bool>()) setup.stop_token = static_cast<TokenId>(from(0, 96));
  return setup;
}

std::vector<ScenarioEvent> any_events() {
  return *rc::gen::container<std::vector<ScenarioEvent>>(any_event());
}

Result<void> run(Scenario& scenario, const std::vector<ScenarioEvent>& events) {
  for (const ScenarioEvent& event : events) TRY(scenario.apply(event));
  return scenario.finish();
}

RC_GTEST_PROP(PlannerPropertyTest, answers_are_foretold_and_plans_touch_only_what_is_theirs, ()) {
  const ScenarioSetup setup = any_setup();
  const std::vector<ScenarioEvent> events = any_events();
  RC_LOG() << setup;
  Scenario scenario(setup);
  const Result<void> sound = run(scenario, events);
  if (!sound) RC_FAIL(sound.error().message);
}

RC_GTEST_PROP(PlannerPropertyTest, the_same_calls_give_the_same_plans, ()) {
  ScenarioSetup setup = any_setup();
  setup.keep_plans = true;
  setup.check_every = 1000;
  const std::vector<ScenarioEvent> events = any_events();
  Scenario first(setup), second(setup);
  RC_ASSERT(run(first, events).has_value());
  RC_ASSERT(run(second, events).has_value());
  RC_ASSERT(first.plans() == second.plans());
}

// The properties above can fail: damage to one byte of what is cached does not go unnoticed.
class DamageTest : public testing::TestWithParam<EntryKind> {};

TEST_P(DamageTest, of_something_cached_is_noticed) {
  Scenario scenario(ScenarioSetup{});
  const ScenarioEvent prompt = {.kind = Kind::kAdd, .a = 5, .b = 9};
  const std::vector<ScenarioEvent> turns(100, {.kind = Kind::kTurn, .a = 3});
  ASSERT_TRUE(scenario.apply(prompt));
  for (const ScenarioEvent& turn : turns) ASSERT_TRUE(scenario.apply(turn));
  int damaged = 0;
  scenario.at().executor->set_sabotage([&](const StepPlan& plan) {
    if (plan.restores.empty()) return;
    const std::int64_t at =
        GetParam() == EntryKind::kState ? plan.restores[0].src_offset : plan.page_offsets[0];
    scenario.at().executor->bytes()[static_cast<std::size_t>(at)] ^= std::byte{1};
    ++damaged;
  });
  ASSERT_TRUE(scenario.apply(prompt));
  EXPECT_FALSE(run(scenario, {}));
  EXPECT_GT(damaged, 0);
}

INSTANTIATE_TEST_SUITE_P(kinds, DamageTest, testing::Values(EntryKind::kState, EntryKind::kPage));

}  // namespace
}  // namespace tandem
