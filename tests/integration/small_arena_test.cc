// Cases that need memory for a few states only, or prompts shorter than a chat's markup: on the
// engine itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <random>

#include "engine/engine.h"
#include "engine/engine_memory.h"
#include "support/model_runner.h"

namespace tandem {
namespace {

struct Reply {
  std::vector<TokenId> tokens;
  GenerateResult result;
};

class ReplySink final : public TokenSink {
 public:
  explicit ReplySink(std::promise<Reply> done) : done_(std::move(done)) {}
  Verdict on_token(const SampledToken& token) override {
    reply_.tokens.push_back(token.id);
    return Verdict::kContinue;
  }
  void on_finish(const GenerateResult& result) override {
    reply_.result = result;
    done_.set_value(std::move(reply_));
  }

 private:
  std::promise<Reply> done_;
  Reply reply_;
};

// An engine over a tiny random model, with memory for so many states and rows; 0: as it comes.
class SmallArena {
 public:
  explicit SmallArena(std::int64_t states = 0, std::int64_t rows = 0, std::int64_t running = 4) {
    options_.max_running = running;
    if (states > 0) {
      options_.memory_bytes = 1 << 30;
      const ArenaGeometry geometry =
          *engine_geometry(model_->spec(), model_->memory().total, options_);
      options_.memory_bytes = geometry.sink_bytes() + states * geometry.state_bytes +
                              rows / options_.page_tokens * geometry.page_bytes;
    }
    engine_ = *Engine::create(model_, options_, clock_);
    vocabulary_ = model_->spec().vocab_size;
  }

  std::future<Reply> submit(std::vector<TokenId> prompt, std::int64_t max_tokens,
                            const std::string& salt = "", RequestId* id = nullptr) {
    std::promise<Reply> promise;
    auto future = promise.get_future();
    GenerateRequest request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.max_tokens = max_tokens;
    request.cache.salt = salt;
    const auto given =
        engine_->submit(std::move(request), std::make_unique<ReplySink>(std::move(promise)));
    EXPECT_TRUE(given) << given.error().message;
    if (id != nullptr) *id = *given;
    return future;
  }

  std::vector<TokenId> prompt(std::uint64_t seed, std::size_t tokens) const {
    std::mt19937_64 random(seed);
    std::vector<TokenId> out(tokens);
    for (TokenId& id : out) {
      id = static_cast<TokenId>(random() % static_cast<std::uint64_t>(vocabulary_));
    }
    return out;
  }

  // Nobody holds anything once the cache is flushed.
  void check_leaks() {
    engine_->wait_idle();
    engine_->flush_cache();
    const EngineStatus status = engine_->status();
    EXPECT_EQ(status.arena.taken, EntryCounts{});
    EXPECT_EQ(status.arena.pinned_bytes, 0);
    EXPECT_EQ(status.cache.nodes, 0);
    EXPECT_EQ(status.cache.locks, 0);
    engine_->inspect([](EngineInternals inside) {
      const Result<void> sound = inside.planner.integrity_check();
      EXPECT_TRUE(sound) << sound.error().message;
      EXPECT_EQ(inside.planner.size(), 0u);
    });
  }

  Engine& engine() { return *engine_; }
  std::int64_t grid() const { return engine_->status().grid_tokens; }
  std::int64_t chunk() const { return options_.prefill_chunk; }

 private:
  SystemClock clock_;
  std::shared_ptr<const Model> model_ =
      *Model::load(source_path("tests/data/golden/k3_tiny"), Precision::kExact, cpu_kernels());
  EngineOptions options_{.threads = 1, .prefill_chunk = 48, .max_queued = 1000};
  std::unique_ptr<Engine> engine_;
  std::int64_t vocabulary_ = 0;
};

// L in {B-1, B, B+1, 2B, P, P+1}, then one and two tokens more. Full size.
TEST(Cases, c02_exact_boundary) {
  SmallArena small;
  const std::int64_t grid = small.grid();
  for (const std::int64_t length :
       {grid - 1, grid, grid + 1, 2 * grid, small.chunk(), small.chunk() + 1}) {
    const auto longest =
        small.prompt(static_cast<std::uint64_t>(length), static_cast<std::size_t>(length) + 2);
    for (std::int64_t more = 0; more <= 2; ++more) {
      SCOPED_TRACE(fmt::format("{} + {} tokens", length, more));
      const std::vector<TokenId> prompt(longest.begin(), longest.begin() + length + more);
      const Reply reply = small.submit(prompt, 6).get();
      const Reply reference =
          small.submit(prompt, 6, fmt::format("reference {} {}", length, more)).get();
      EXPECT_EQ(reply.tokens, reference.tokens);
      EXPECT_EQ(reference.result.usage.cache.cached_tokens, 0);
      if (more > 0) {
        EXPECT_GE(reply.result.usage.cache.cached_tokens, (length - 1) / grid * grid);
      }
    }
  }
  small.check_leaks();
}

// Four running, memory for seven states and rows of about six; 12 rotating sessions that
// reuse what is still there. Scale: sessions of 6 turns up to 250 tokens instead of 15 minutes of
// 20K.
TEST(Cases, c29_state_pool_exhausted) {
  constexpr std::size_t kSessions = 12;
  SmallArena small(7, 6 * 250);
  std::map<std::size_t, std::vector<TokenId>> sessions;
  std::vector<std::pair<std::vector<TokenId>, std::vector<TokenId>>> last;  // prompts and answers
  for (std::size_t i = 0; i < kSessions; ++i) sessions[i] = small.prompt(i, 60);
  for (std::uint64_t turn = 0; turn < 6; ++turn) {
    std::vector<std::future<Reply>> asked;
    for (auto& [i, tokens] : sessions) asked.push_back(small.submit(tokens, 8));
    for (auto& [i, tokens] : sessions) {
      const Reply reply = asked[i].get();
      ASSERT_EQ(reply.result.reason, FinishReason::kLength);
      ASSERT_EQ(reply.tokens.size(), 8u);
      if (turn == 5) last.push_back({tokens, reply.tokens});
      tokens.insert(tokens.end(), reply.tokens.begin(), reply.tokens.end());
      const auto next = small.prompt(100 * turn + i, 24);
      tokens.insert(tokens.end(), next.begin(), next.end());
    }
  }
  const EngineStatus status = small.engine().status();
  EXPECT_GT(status.cache_counters.hit_tokens, 0);
  EXPECT_GT(status.cache_counters.evicted_states[0], 0);
  for (std::size_t i = 0; i < last.size(); ++i) {
    const auto& [prompt, tokens] = last[i];
    EXPECT_EQ(small.submit(prompt, 8, fmt::format("reference {}", i)).get().tokens, tokens);
  }
  small.check_leaks();
}

// A request whose prefix is cached cannot get in while others hold the memory; it is given up and
// sent again, twenty times, and succeeds once they have gone.
TEST(Cases, c30_admission_failure_path) {
  SmallArena small(3, 3 * 160);
  const auto prompt = small.prompt(1, 100);
  const Reply first = small.submit(prompt, 8).get();
  ASSERT_EQ(first.result.reason, FinishReason::kLength);

  std::vector<RequestId> ids(3);
  std::vector<std::future<Reply>> holders;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    holders.push_back(small.submit(small.prompt(10 + i, 100), 60, "holder", &ids[i]));
  }
  std::vector<std::future<Reply>> given_up;
  for (int attempt = 0; attempt < 20; ++attempt) {
    RequestId id;
    given_up.push_back(small.submit(prompt, 8, "", &id));
    if (attempt < 19) small.engine().cancel(id);
  }
  for (auto& holder : holders) EXPECT_EQ(holder.get().tokens.size(), 60u);
  const Reply last = given_up.back().get();
  EXPECT_EQ(last.tokens, first.tokens);
  for (std::size_t i = 0; i + 1 < given_up.size(); ++i) {
    const Reply reply = given_up[i].get();
    EXPECT_TRUE(reply.result.reason == FinishReason::kCancelled || reply.tokens == first.tokens);
  }
  EXPECT_EQ(small.submit(prompt, 8).get().tokens, first.tokens);
  small.check_leaks();
}

}  // namespace
}  // namespace tandem
