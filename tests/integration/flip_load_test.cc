// Many short requests, then few long ones, then short ones again, with the same options: in each
// phase as many run at once as the best fixed split of the memory would let.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "engine/engine.h"
#include "engine/engine_memory.h"

namespace tandem {
namespace {

// Notes how many requests there are in a step.
class RunningSink final : public TokenSink {
 public:
  RunningSink(const std::unique_ptr<Engine>& engine, std::atomic<std::int64_t>& most)
      : engine_(engine), most_(most) {}
  Verdict on_token(const SampledToken&) override {
    most_ = std::max(most_.load(), engine_->status().running);
    return Verdict::kContinue;
  }
  void on_finish(const GenerateResult& result) override {
    EXPECT_EQ(result.reason, FinishReason::kLength);
  }

 private:
  const std::unique_ptr<Engine>& engine_;
  std::atomic<std::int64_t>& most_;
};

struct Shape {
  std::int64_t prompt_tokens;
  std::int64_t answer_tokens;
};

// The most requests of one shape that any split into states and pages holds.
std::int64_t best_static(const ArenaGeometry& geometry, std::int64_t page_tokens, Shape shape) {
  const std::int64_t pages =
      (shape.prompt_tokens + shape.answer_tokens + page_tokens - 1) / page_tokens;
  std::int64_t best = 0;
  for (std::int64_t states = 1; states <= geometry.max_entries(EntryKind::kState); ++states) {
    const std::int64_t left = geometry.usable_bytes() - states * geometry.state_bytes;
    best = std::max(best, std::min(states, left / geometry.page_bytes / pages));
  }
  return best;
}

TEST(FlipLoadTest, the_demo_model_runs_as_many_as_the_best_split_of_each_phase) {
  SystemClock clock;
  std::shared_ptr<const Model> model = *Model::load(
      std::filesystem::path(TANDEM_SOURCE_DIR) / "models/demo", Precision::kDefault, cpu_kernels());
  EngineOptions options{.threads = 2, .prefill_chunk = 512, .max_running = 64};
  options.memory_bytes = std::int64_t{1} << 30;
  const ArenaGeometry one = *engine_geometry(model->spec(), model->memory().total, options);
  options.memory_bytes = one.sink_bytes() + 16 * one.state_bytes + 200 * one.page_bytes;
  const ArenaGeometry geometry = *engine_geometry(model->spec(), model->memory().total, options);
  const std::unique_ptr<Engine> engine = *Engine::create(model, options, clock);

  TokenId next = 0;
  const auto run_phase = [&](Shape shape) {
    const std::int64_t best = best_static(geometry, options.page_tokens, shape);
    std::atomic<std::int64_t> most = 0;
    for (std::int64_t i = 0; i < 2 * best; ++i) {
      GenerateRequest request;
      for (std::int64_t t = 0; t < shape.prompt_tokens; ++t) {
        request.prompt.push_back(next = (next * 31 + 7) % 997);
      }
      request.max_tokens = shape.answer_tokens;
      ASSERT_TRUE(engine->submit(std::move(request), std::make_unique<RunningSink>(engine, most)));
    }
    engine->wait_idle();
    EXPECT_GE(static_cast<double>(most), 0.98 * static_cast<double>(best))
        << shape.prompt_tokens << " tokens: " << most << " ran at once, " << best << " fit";
    EXPECT_GT(best, 2);
  };
  const Shape few{.prompt_tokens = 40, .answer_tokens = 40};
  const Shape many{.prompt_tokens = 600, .answer_tokens = 200};
  run_phase(few);
  run_phase(many);
  run_phase(few);
  EXPECT_EQ(engine->status().planner.retractions, 0);
}

}  // namespace
}  // namespace tandem
