#include "serve/live_route.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tandem {
namespace {

using Json = nlohmann::json;

class IgnoringSink final : public TokenSink {
 public:
  Verdict on_token(const SampledToken&) override { return Verdict::kContinue; }
  void on_finish(const GenerateResult&) override {}
};

// 64-byte states, 128-byte pages.
EngineStatus engine() {
  EngineStatus engine;
  engine.geometry = {
      .budget_bytes = 128 + 10 * 64 + 20 * 128, .state_bytes = 64, .page_bytes = 128};
  engine.arena.states = {0, 3, 2, 4, 1};
  engine.arena.taken = {.states = 10, .pages = 12};
  engine.arena.holes = {.states = 0, .pages = 1};
  engine.arena.gap_bytes = 7 * 128;
  engine.cache.pages = 5;
  engine.running = 3;
  engine.queued = 2;
  engine.planner.decode_tokens = 77;
  return engine;
}

struct LiveRoute : testing::Test {
  Json body() { return Json::parse(live_body(engine(), log, "demo")); }

  SystemClock clock;
  RequestLog log{clock};
};

TEST_F(LiveRoute, names_the_load) {
  const Json json = body();
  EXPECT_EQ(json["model"], "demo");
  EXPECT_EQ(json["running"], 3);
  EXPECT_EQ(json["queued"], 2);
  EXPECT_EQ(json["counters"]["decode_tokens"], 77);
}

TEST_F(LiveRoute, splits_the_arena_by_owner_without_remainder) {
  const Json arena = body()["arena"];
  const Json& states = arena["states"];
  const Json& pages = arena["pages"];
  EXPECT_EQ(states["requests"], 3);
  EXPECT_EQ(states["snapshots"], 2);
  EXPECT_EQ(states["cache"], 4);
  EXPECT_EQ(states["readers"], 1);
  EXPECT_EQ(pages["requests"], 7);
  EXPECT_EQ(pages["cache"], 5);
  std::int64_t total =
      arena["sink_bytes"].get<std::int64_t>() + arena["gap_bytes"].get<std::int64_t>();
  for (const Json& kind : {states, pages}) {
    for (const auto& [name, count] : kind.items()) {
      if (name == "entry_bytes") continue;
      total += count.get<std::int64_t>() * kind["entry_bytes"].get<std::int64_t>();
    }
  }
  EXPECT_EQ(arena["bytes"], total);
}

TEST_F(LiveRoute, tells_running_requests_from_those_that_ended) {
  const auto running = log.watch(9, std::make_unique<IgnoringSink>());
  const auto ended = log.watch(5, std::make_unique<IgnoringSink>());
  ended->on_token({});
  GenerateResult result;
  result.reason = FinishReason::kLength;
  result.usage.prompt_tokens = 5;
  result.usage.decode_ms = 1.5;
  result.usage.cache.cached_tokens = 3;
  result.usage.cache.miss = CacheMiss::kBranch;
  ended->on_finish(result);

  const Json json = body();
  ASSERT_EQ(json["requests"].size(), 2U);
  EXPECT_TRUE(json["requests"][0]["finish"].is_null());
  EXPECT_TRUE(json["requests"][0]["first_token_ms"].is_null());
  EXPECT_EQ(json["requests"][0]["prompt_tokens"], 9);
  EXPECT_EQ(json["requests"][1]["finish"], "length");
  EXPECT_EQ(json["requests"][1]["decode_ms"], 1.5);
  EXPECT_EQ(json["requests"][1]["miss"], "branch");
  EXPECT_EQ(json["cache"]["misses"]["branch"]["prompts"], 1);
  EXPECT_EQ(json["cache"]["misses"]["branch"]["tokens"], 2);
  EXPECT_EQ(json["cache"]["cached_tokens"], 3);
}

}  // namespace
}  // namespace tandem
