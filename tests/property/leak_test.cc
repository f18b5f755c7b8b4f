// Many requests, many of them given up at a bad moment, in memory for a few: afterwards nothing is
// held by anybody.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "engine/engine.h"
#include "engine/engine_memory.h"

namespace tandem {
namespace {

constexpr int kRequests = 2000;
constexpr int kStates = 7;

// Counts what comes back; asks for a cancellation after so many tokens.
class Ledger {
 public:
  struct Entry {
    std::int64_t tokens = 0;
    int ends = 0;
    FinishReason reason = {};
  };

  void on_token(std::size_t i) {
    std::lock_guard lock(mutex_);
    ++entries_[i].tokens;
  }
  void on_end(std::size_t i, FinishReason reason) {
    {
      std::lock_guard lock(mutex_);
      ++entries_[i].ends;
      entries_[i].reason = reason;
      --open_;
    }
    changed_.notify_all();
  }
  // Waits until fewer than `most` requests are open, and opens one.
  std::size_t open(int most) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ < most; });
    ++open_;
    entries_.emplace_back();
    return entries_.size() - 1;
  }
  std::vector<Entry> entries() {
    std::lock_guard lock(mutex_);
    return entries_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> entries_;
  int open_ = 0;
};

class LedgerSink final : public TokenSink {
 public:
  LedgerSink(Ledger& ledger, std::size_t index) : ledger_(ledger), index_(index) {}
  Verdict on_token(const SampledToken&) override {
    ledger_.on_token(index_);
    return Verdict::kContinue;
  }
  void on_finish(const GenerateResult& result) override { ledger_.on_end(index_, result.reason); }

 private:
  Ledger& ledger_;
  std::size_t index_;
};

// Prompts that share beginnings, as those of a few applications do.
std::vector<TokenId> random_prompt(std::mt19937_64& random, std::int64_t vocab) {
  const auto application = static_cast<TokenId>(random() % 5);
  std::vector<TokenId> prompt(1 + random() % 90);
  const std::size_t shared = random() % (prompt.size() + 1);
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    prompt[i] = i < shared ? static_cast<TokenId>((application * 31 + static_cast<TokenId>(i) * 7) %
                                                  static_cast<TokenId>(vocab))
                           : static_cast<TokenId>(random() % static_cast<std::uint64_t>(vocab));
  }
  return prompt;
}

class LeakTest : public testing::TestWithParam<LoopMode> {};

TEST_P(LeakTest, two_thousand_requests_leave_nothing_behind) {
  SystemClock clock;
  std::shared_ptr<const Model> model =
      *Model::load(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/golden/k3_tiny",
                   Precision::kExact, cpu_kernels());
  EngineOptions options{.threads = 2, .prefill_chunk = 48, .max_running = 4, .max_queued = 100};
  options.loop = GetParam();
  options.memory_bytes = 1 << 30;
  ArenaGeometry geometry = *engine_geometry(model->spec(), model->memory().total, options);
  options.memory_bytes =
      geometry.sink_bytes() + kStates * geometry.state_bytes + 16 * geometry.page_bytes;
  auto engine = *Engine::create(model, options, clock);
  const EngineStatus before = engine->status();

  Ledger ledger;
  std::mt19937_64 random(20'261'130);
  std::vector<std::pair<std::size_t, RequestId>> to_cancel;
  for (int i = 0; i < kRequests; ++i) {
    const std::size_t index = ledger.open(8);
    GenerateRequest request;
    request.prompt = random_prompt(random, model->spec().vocab_size);
    request.sampling.temperature = 0;
    request.max_tokens = static_cast<std::int64_t>(1 + random() % 12);
    const auto id = engine->submit(std::move(request), std::make_unique<LedgerSink>(ledger, index));
    ASSERT_TRUE(id) << id.error().message;
    if (random() % 10 < 3) to_cancel.emplace_back(index, *id);
    // Some at once, some when others have come, some after their end.
    if (!to_cancel.empty() && random() % 3 == 0) {
      engine->cancel(to_cancel.front().second);
      to_cancel.erase(to_cancel.begin());
    }
  }
  for (const auto& [index, id] : to_cancel) engine->cancel(id);
  engine->wait_idle();

  int cancelled = 0;
  for (const Ledger::Entry& entry : ledger.entries()) {
    EXPECT_EQ(entry.ends, 1);
    EXPECT_TRUE(entry.reason == FinishReason::kLength || entry.reason == FinishReason::kCancelled);
    cancelled += entry.reason == FinishReason::kCancelled ? 1 : 0;
  }
  EXPECT_GT(cancelled, kRequests / 20);
  engine->inspect([](EngineInternals inside) {
    const Result<void> sound = inside.planner.integrity_check();
    EXPECT_TRUE(sound) << sound.error().message;
    EXPECT_EQ(inside.planner.size(), 0u);
    EXPECT_EQ(inside.cache.usage().locks, 0);
  });
  EXPECT_GT(engine->status().cache_counters.hit_tokens, 0);
  engine->flush_cache();
  const EngineStatus after = engine->status();
  EXPECT_EQ(after.arena.taken, before.arena.taken);
  EXPECT_EQ(after.arena.taken, EntryCounts{});
  EXPECT_EQ(after.cache.nodes, 0);
  EXPECT_EQ(after.arena.pinned_bytes, 0);
  engine->inspect([](EngineInternals inside) {
    inside.arena.compact_all();
    EXPECT_EQ(inside.arena.usage().gap_bytes, inside.arena.geometry().usable_bytes());
  });
}

INSTANTIATE_TEST_SUITE_P(loops, LeakTest, testing::Values(LoopMode::kSimple, LoopMode::kOverlapped),
                         [](const auto& with) {
                           return with.param == LoopMode::kSimple ? "simple" : "overlapped";
                         });

}  // namespace
}  // namespace tandem
