#include "cache/cache_replay.h"

#include <chrono>
#include <memory>
#include <vector>

#include "base/check.h"
#include "memory/prefix_cache.h"
#include "memory/prefix_placement.h"

namespace tandem {
namespace {

class TraceClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(std::int64_t ms) { now_ += std::chrono::milliseconds(ms); }

 private:
  TimePoint now_ = {};
};

class Replay {
 public:
  explicit Replay(const CacheReplayOptions& options) : options_(options) {
    const CacheShape& shape = options.shape;
    ArenaGeometry geometry{.state_bytes = shape.state_bytes, .page_bytes = shape.page_bytes};
    geometry.budget_bytes = geometry.sink_bytes() +
                            static_cast<std::int64_t>(options.budget_tokens * shape.row_bytes());
    auto arena = Arena::create(geometry);
    CHECK(arena.has_value(), "{}", arena.error().message);
    arena_ = *std::move(arena);
    auto cache = PrefixCache::create(*arena_, clock_,
                                     {.page_tokens = shape.page_tokens,
                                      .grid_tokens = shape.grid_tokens,
                                      .prefill_cost = [](std::int64_t depth) {
                                        return prefill_time(static_cast<double>(depth));
                                      }});
    CHECK(cache.has_value(), "{}", cache.error().message);
    cache_ = *std::move(cache);
  }

  PrefixMatch serve(const std::vector<TokenId>& text, std::int64_t prompt) {
    clock_.advance(options_.turn_ms);
    const PrefixMatch match = cache_->match(name_, text, prompt - 1);
    PrefixLock lock = cache_->acquire(name_, match);
    cache_->count_use(match);
    lock.release_state();
    const std::vector<PlannedCheckpoint> planned =
        plan_checkpoints(match, prompt, 0,
                         {.grid_tokens = options_.shape.grid_tokens,
                          .min_spacing_tokens = options_.min_spacing_tokens});
    const std::span tokens(text);
    lock = donate(std::move(lock), tokens.first(static_cast<std::size_t>(prompt)), planned);
    std::vector<PlannedCheckpoint> last;
    const auto end = static_cast<std::int64_t>(text.size());
    const std::int64_t boundary = end - end % decode_grid(options_.shape.grid_tokens);
    if (boundary > prompt) last = {{.depth_tokens = boundary, .reason = CheckpointReason::kAnswer}};
    lock = donate(std::move(lock), tokens, last);
    arena_->take_moves(moves_);
    return match;
  }

  const PrefixCounters& counters() const { return cache_->counters(); }
  void check() const {
    const auto sound = cache_->integrity_check();
    CHECK(sound.has_value(), "{}", sound.error().message);
  }

 private:
  PrefixLock donate(PrefixLock lock, std::span<const TokenId> tokens,
                    const std::vector<PlannedCheckpoint>& planned) {
    const std::int64_t page = options_.shape.page_tokens;
    const auto end = static_cast<std::int64_t>(tokens.size());
    std::vector<PageHandle> pages(static_cast<std::size_t>((end - lock.tokens()) / page));
    CHECK(cache_->evict_until({.states = static_cast<std::int64_t>(planned.size()),
                               .pages = static_cast<std::int64_t>(pages.size())}),
          "a prompt of {} tokens does not fit", end);
    CHECK(arena_->allocate_pages(pages), "no room for {} pages", pages.size());
    std::vector<DonatedState> states;
    for (const PlannedCheckpoint& plan : planned) {
      states.push_back({.state = arena_->allocate_ping(RequestId{}, 0),
                        .depth_tokens = plan.depth_tokens,
                        .reason = plan.reason});
    }
    return cache_->donate(std::move(lock), tokens, pages, states).lock;
  }

  const CacheReplayOptions options_;
  TraceClock clock_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<PrefixCache> cache_;
  NamespaceKey name_ = CacheNamespace{}.key();
  std::vector<Move> moves_;
};

}  // namespace

CacheReplay replay_cache(const AgentWorkload& workload, const CacheReplayOptions& options) {
  Replay replay(options);
  CacheReplay result;
  for (std::size_t i = 0; i < workload.turns.size(); ++i) {
    const Turn& turn = workload.turns[i];
    const std::int64_t prompt = workload.at(turn.message).end_tokens;
    const PrefixMatch match = replay.serve(workload.text(turn.answer), prompt);
    if (i >= warm_up(workload)) {
      result.earnings.add(prompt, match.row_tokens, match.usable_tokens);
    }
  }
  replay.check();
  result.counters = replay.counters();
  return result;
}

}  // namespace tandem
