// What tests of the prefix cache share: a clock, a small arena, and requests that donate.
#pragma once

#include <chrono>
#include <initializer_list>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/fake_clock.h"
#include "memory/prefix_cache.h"

namespace tandem::testing {

// A cost with no two equal differences, growing faster than the depth.
inline double quadratic_cost(std::int64_t depth) {
  const auto n = static_cast<double>(depth);
  return n + n * n / 1200.0;
}

// An arena with a cache on top. Pages are of `page_tokens`; a state is as large as 3 pages.
struct CacheFixture {
  static constexpr std::int64_t kPageBytes = 128;
  static constexpr std::int64_t kStateBytes = 3 * kPageBytes;

  explicit CacheFixture(PrefixCacheOptions options, std::int64_t budget_pages = 1000) {
    auto made = Arena::create({.budget_bytes = kStateBytes + budget_pages * kPageBytes,
                               .state_bytes = kStateBytes,
                               .page_bytes = kPageBytes});
    CHECK(made.has_value(), "{}", made.error().message);
    arena = *std::move(made);
    if (!options.prefill_cost) options.prefill_cost = quadratic_cost;
    auto cached = PrefixCache::create(*arena, clock, std::move(options));
    CHECK(cached.has_value(), "{}", cached.error().message);
    cache = *std::move(cached);
  }

  PrefixMatch match(const std::vector<TokenId>& tokens) const {
    return cache->match(name, tokens, static_cast<std::int64_t>(tokens.size()));
  }
  PrefixLock acquire(const std::vector<TokenId>& tokens, LockExtent extent = LockExtent::kUsable) {
    const PrefixMatch found = match(tokens);
    PrefixLock lock = cache->acquire(name, found, extent);
    cache->count_use(found);
    return lock;
  }

  std::vector<PageHandle> new_pages(std::int64_t count) {
    std::vector<PageHandle> pages(static_cast<std::size_t>(count));
    CHECK(arena->allocate_pages(pages), "no room for {} pages", count);
    return pages;
  }

  // Computes what the lock lacks of `tokens` and donates it with states at `depths`.
  Donation donate(PrefixLock lock, const std::vector<TokenId>& tokens,
                  std::initializer_list<std::int64_t> depths) {
    const std::int64_t page = cache->options().page_tokens;
    std::vector<PageHandle> pages =
        new_pages((static_cast<std::int64_t>(tokens.size()) - lock.tokens()) / page);
    std::vector<DonatedState> states;
    for (const std::int64_t depth : depths) {
      states.push_back({.state = arena->allocate_work(RequestId{1}), .depth_tokens = depth});
    }
    return cache->donate(std::move(lock), tokens, pages, states);
  }
  // A whole request: restore, compute, donate, end.
  void run(const std::vector<TokenId>& tokens, std::initializer_list<std::int64_t> depths) {
    PrefixLock lock = acquire(tokens);
    lock.release_state();
    const Donation done = donate(std::move(lock), tokens, depths);
  }

  FakeClock clock;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<PrefixCache> cache;
  NamespaceKey name = CacheNamespace{}.key();
};

// `count` tokens from `first` upwards.
inline std::vector<TokenId> ascending(TokenId first, int count) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

inline std::vector<TokenId> operator+(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace tandem::testing
