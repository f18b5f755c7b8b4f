// A planner with all that it needs, over an executor without a model.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/fake_clock.h"
#include "schedule/fake_executor.h"
#include "schedule/step_loop.h"

namespace tandem {

struct SchedulerSetup {
  std::int64_t states = 7;  // what the arena holds together
  std::int64_t pages = 200;
  std::int64_t page_tokens = 4;
  std::int64_t grid_tokens = 8;
  PlannerOptions planner = {.max_running = 4, .prefill_chunk = 32, .track_interval = 16};
  LoopMode mode = LoopMode::kOverlapped;
};

// Collects answers and ends by request.
class SchedulerFixture : public StepListener {
 public:
  struct Answer {
    std::vector<TokenId> tokens;
    int ends = 0;
    EndedRequest ended;
  };

  explicit SchedulerFixture(const SchedulerSetup& setup) {
    const std::int64_t page_bytes = entry_bytes(FakeExecutor::kRowBytes * setup.page_tokens);
    ArenaGeometry geometry{.state_bytes = FakeExecutor::kStateBytes, .page_bytes = page_bytes};
    geometry.budget_bytes = geometry.sink_bytes() + setup.states * geometry.state_bytes +
                            setup.pages * geometry.page_bytes;
    auto made = Arena::create(geometry);
    CHECK(made.has_value(), "{}", made.error().message);
    arena = *std::move(made);
    auto cached = PrefixCache::create(
        *arena, clock,
        {.page_tokens = setup.page_tokens,
         .grid_tokens = setup.grid_tokens,
         .prefill_cost = [](std::int64_t n) { return static_cast<double>(n) * 0.1; }});
    CHECK(cached.has_value(), "{}", cached.error().message);
    cache = *std::move(cached);
    auto cost =
        CostTable::create({.fixed_ms = 1, .token_ms = 0.1, .attention_ms = 1e-6, .row_ms = 0.5});
    planner = std::make_unique<Planner>(*arena, *cache, clock, setup.planner, *std::move(cost));
    executor = std::make_unique<FakeExecutor>(geometry, setup.page_tokens);
    loop = std::make_unique<StepLoop>(*planner, *executor, *this, setup.mode);
  }

  RequestId add(std::vector<TokenId> prompt, std::int64_t max_tokens,
                NamespaceKey key = CacheNamespace{}.key()) {
    const RequestId id{++last_id_};
    planner->add({.id = id,
                  .prompt = std::move(prompt),
                  .max_tokens = max_tokens,
                  .cache_key = std::move(key)});
    return id;
  }
  // Until nothing is left to do.
  void run() {
    while (loop->turn()) clock.advance(std::chrono::milliseconds(1));
  }

  Verdict on_token(RequestId id, const SampledToken& token) override {
    answers[id].tokens.push_back(token.id);
    return stop_token && token.id == *stop_token ? Verdict::kStop : Verdict::kContinue;
  }
  void on_end(const EndedRequest& ended) override {
    ++answers[ended.id].ends;
    answers[ended.id].ended = ended;
    ends.push_back(ended.id);
  }

  FakeClock clock;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<PrefixCache> cache;
  std::unique_ptr<Planner> planner;
  std::unique_ptr<FakeExecutor> executor;
  std::unique_ptr<StepLoop> loop;
  std::map<RequestId, Answer> answers;
  std::vector<RequestId> ends;  // in order
  std::optional<TokenId> stop_token;

 private:
  std::uint64_t last_id_ = 0;
};

}  // namespace tandem
