#include "memory/prefix_cache.h"

#include <gtest/gtest.h>

#include "memory/prefix_testing.h"

namespace tandem::testing {
namespace {

const PrefixCacheOptions kPages4 = {.page_tokens = 4, .grid_tokens = 8};

class PrefixCacheTest : public ::testing::Test {
 protected:
  PrefixCacheTest() : at_(kPages4) {}
  ~PrefixCacheTest() override {
    const Result<void> sound = at_.cache->integrity_check();
    EXPECT_TRUE(sound.has_value()) << sound.error().message;
  }
  std::vector<PageId> pages_of(const PrefixLock& lock, std::int64_t from = 0) const {
    std::vector<PageId> pages;
    at_.cache->pages_of(lock, from, pages);
    return pages;
  }

  CacheFixture at_;
};

TEST_F(PrefixCacheTest, an_empty_cache_matches_nothing) {
  const PrefixMatch match = at_.match(ascending(0, 20));
  EXPECT_EQ(match.usable_tokens, 0);
  EXPECT_EQ(match.row_tokens, 0);
  EXPECT_EQ(match.end, MatchEnd::kCacheEnds);
  EXPECT_EQ(match.replay, ReplayCause::kNone);
}

TEST_F(PrefixCacheTest, a_donated_prefix_is_found_with_its_state_and_its_rows) {
  at_.run(ascending(0, 16), {16});
  const PrefixMatch match = at_.match(ascending(0, 30));
  EXPECT_EQ(match.usable_tokens, 16);
  EXPECT_EQ(match.row_tokens, 16);
  EXPECT_EQ(match.text_tokens, 16);
  EXPECT_EQ(match.end, MatchEnd::kCacheEnds);
  EXPECT_EQ(match.branch_tokens, 0);
}

TEST_F(PrefixCacheTest, the_limit_hides_a_state_at_the_end_of_the_same_prompt) {
  at_.run(ascending(0, 16), {8, 16});
  const std::vector<TokenId> prompt = ascending(0, 16);
  const PrefixMatch match = at_.cache->match(at_.name, prompt, 15);
  EXPECT_EQ(match.usable_tokens, 8);
  EXPECT_EQ(match.row_tokens, 12);
  EXPECT_EQ(match.text_tokens, 15);
  EXPECT_EQ(match.end, MatchEnd::kPromptEnds);
  EXPECT_EQ(match.replay, ReplayCause::kGrid);
}

TEST_F(PrefixCacheTest, a_match_inside_an_edge_names_the_first_differing_token_and_a_branch_point) {
  at_.run(ascending(0, 32), {32});
  const PrefixMatch match = at_.match(ascending(0, 22) + ascending(500, 10));
  EXPECT_EQ(match.text_tokens, 22);
  EXPECT_EQ(match.row_tokens, 20);
  EXPECT_EQ(match.branch_tokens, 16);
  EXPECT_EQ(match.usable_tokens, 0);
  EXPECT_EQ(match.end, MatchEnd::kTextDiffers);
  EXPECT_EQ(match.replay, ReplayCause::kBranch);
}

TEST_F(PrefixCacheTest, the_first_differing_token_is_exact_among_many_children) {
  for (const TokenId token : {10, 20, 30, 40}) {
    at_.run(ascending(0, 8) + std::vector<TokenId>{7, token, 1, 1, 1, 1, 1, 1}, {16});
  }
  const auto text_of = [&](std::vector<TokenId> tail) {
    return at_.match(ascending(0, 8) + std::move(tail)).text_tokens;
  };
  EXPECT_EQ(text_of({7, 20, 1, 2}), 11);
  EXPECT_EQ(text_of({7, 25, 1, 2}), 9);
  EXPECT_EQ(text_of({7, 99, 1, 2}), 9);
  EXPECT_EQ(text_of({6, 10}), 8);
  EXPECT_EQ(text_of({7, 30}), 10);
}

TEST_F(PrefixCacheTest, matching_changes_nothing) {
  at_.run(ascending(0, 32), {32});
  const std::uint64_t before = at_.cache->digest();
  const PrefixUsage usage = at_.cache->usage();
  (void)at_.match(ascending(0, 20) + ascending(500, 10));
  (void)at_.cache->match(CacheNamespace{.salt = "other"}.key(), ascending(0, 20), 20);
  EXPECT_EQ(at_.cache->digest(), before);
  EXPECT_EQ(at_.cache->usage(), usage);
}

TEST_F(PrefixCacheTest, a_second_branch_restores_where_the_first_planted) {
  at_.run(ascending(0, 32), {32});
  const std::vector<TokenId> fork = ascending(0, 22) + ascending(500, 10);
  at_.run(fork, {at_.match(fork).branch_tokens, 32});
  const PrefixMatch match = at_.match(ascending(0, 22) + ascending(900, 10));
  EXPECT_EQ(match.usable_tokens, 16);
  EXPECT_EQ(match.row_tokens, 20);
  EXPECT_EQ(match.replay, ReplayCause::kGrid);
}

TEST_F(PrefixCacheTest, a_tombstone_shares_its_rows_and_is_given_as_the_reason_for_the_replay) {
  at_.run(ascending(0, 16), {16});
  at_.run(ascending(0, 32), {32});
  const PrefixLock deep = at_.acquire(ascending(0, 32));
  ASSERT_TRUE(at_.cache->evict_one());  // the state at 16 is all that may go
  const PrefixMatch match = at_.match(ascending(0, 18) + ascending(500, 10));
  EXPECT_EQ(match.row_tokens, 16);
  EXPECT_EQ(match.usable_tokens, 0);
  EXPECT_EQ(match.replay, ReplayCause::kEvicted);
  EXPECT_EQ(at_.cache->usage().tombstones, 1);
  EXPECT_EQ(at_.cache->usage().stranded_pages, 4);
  EXPECT_EQ(at_.match(ascending(0, 40)).replay, ReplayCause::kNone);
}

TEST_F(PrefixCacheTest, a_state_planted_again_makes_a_tombstone_usable) {
  at_.run(ascending(0, 16), {16});
  at_.run(ascending(0, 32), {32});
  {
    const PrefixLock deep = at_.acquire(ascending(0, 32));
    ASSERT_TRUE(at_.cache->evict_one());
  }
  at_.run(ascending(0, 16) + ascending(500, 8), {16, 24});
  EXPECT_EQ(at_.match(ascending(0, 16) + ascending(700, 8)).usable_tokens, 16);
  EXPECT_EQ(at_.cache->usage().tombstones, 0);
  EXPECT_EQ(at_.cache->usage().stranded_pages, 0);
}

TEST_F(PrefixCacheTest, namespaces_share_nothing) {
  at_.run(ascending(0, 16), {16});
  at_.name = CacheNamespace{.salt = "tenant"}.key();
  EXPECT_EQ(at_.match(ascending(0, 16)).row_tokens, 0);
  at_.run(ascending(0, 16), {16});
  EXPECT_EQ(at_.cache->usage().namespaces, 2);
  EXPECT_EQ(at_.cache->counters().duplicate_pages, 0);
}

TEST_F(PrefixCacheTest, donating_moves_handles_and_gives_duplicates_back) {
  at_.run(ascending(0, 16), {16});
  // Computed from nothing, though the rows are there: as if both requests had run side by side.
  PrefixLock lock = at_.cache->acquire(at_.name, at_.cache->match(at_.name, {}, 0));
  std::vector<PageHandle> pages = at_.new_pages(6);
  std::vector<PageId> ids;
  for (const PageHandle& page : pages) ids.push_back(page.id());
  const std::vector<TokenId> tokens = ascending(0, 26);
  const Donation done = at_.cache->donate(std::move(lock), tokens, pages);
  EXPECT_EQ(done.shared_tokens, 16);
  EXPECT_EQ(done.lock.tokens(), 24);
  for (const PageHandle& page : pages) EXPECT_FALSE(page);
  const std::vector<PageId> now = pages_of(done.lock);
  ASSERT_EQ(now.size(), 6u);
  EXPECT_NE(now[3], ids[3]);
  EXPECT_EQ(now[4], ids[4]);
  EXPECT_EQ(now[5], ids[5]);
  EXPECT_EQ(at_.arena->usage().taken.pages, 6);
}

TEST_F(PrefixCacheTest, a_duplicate_state_is_given_back_and_the_first_one_kept) {
  at_.run(ascending(0, 16), {16});
  PrefixLock lock = at_.cache->acquire(at_.name, at_.cache->match(at_.name, {}, 0));
  const Donation done = at_.donate(std::move(lock), ascending(0, 16), {16});
  EXPECT_EQ(at_.cache->counters().duplicate_states, 1);
  EXPECT_EQ(at_.arena->usage().taken, (EntryCounts{.states = 1, .pages = 4}));
}

TEST_F(PrefixCacheTest, pages_of_starts_at_any_page_of_any_node) {
  at_.run(ascending(0, 16), {8, 16});
  at_.run(ascending(0, 32), {32});
  const PrefixLock lock = at_.acquire(ascending(0, 32));
  const std::vector<PageId> all = pages_of(lock);
  ASSERT_EQ(all.size(), 8u);
  for (std::int64_t from = 0; from <= 32; from += 4) {
    EXPECT_EQ(pages_of(lock, from), std::vector<PageId>(all.begin() + from / 4, all.end()));
  }
}

TEST_F(PrefixCacheTest, a_lock_of_all_matched_rows_cuts_the_edge_and_its_release_joins_it) {
  at_.run(ascending(0, 32), {32});
  const std::int64_t nodes = at_.cache->usage().nodes;
  PrefixLock lock = at_.acquire(ascending(0, 22) + ascending(500, 8), LockExtent::kRows);
  EXPECT_EQ(lock.tokens(), 20);
  EXPECT_EQ(pages_of(lock).size(), 5u);
  EXPECT_EQ(at_.cache->usage().locked_pages, 5);
  EXPECT_EQ(at_.cache->usage().nodes, nodes + 1);
  lock.reset();
  EXPECT_EQ(at_.cache->usage().nodes, nodes);
  EXPECT_EQ(at_.match(ascending(0, 32)).usable_tokens, 32);
}

TEST_F(PrefixCacheTest, a_lock_keeps_one_state_and_the_rows_above_it) {
  at_.run(ascending(0, 16), {8, 16});
  PrefixLock lock = at_.acquire(ascending(0, 16));
  EXPECT_EQ(lock.state_tokens(), 16);
  EXPECT_EQ(at_.arena->meta(lock.state()).depth_tokens, 16);
  EXPECT_TRUE(at_.cache->evict_one());
  EXPECT_FALSE(at_.cache->evict_one());
  EXPECT_EQ(at_.match(ascending(0, 16)).usable_tokens, 16);
  lock.release_state();
  EXPECT_TRUE(at_.cache->evict_one());
  EXPECT_EQ(at_.match(ascending(0, 16)).row_tokens, 16);
  lock.reset();
  EXPECT_EQ(at_.cache->usage(), PrefixUsage{});
}

TEST_F(PrefixCacheTest, locks_are_released_in_any_order) {
  at_.run(ascending(0, 16), {8, 16});
  at_.run(ascending(0, 8) + ascending(500, 8), {16});
  const PrefixUsage idle = at_.cache->usage();
  PrefixLock a = at_.acquire(ascending(0, 16));
  PrefixLock b = at_.acquire(ascending(0, 12), LockExtent::kRows);
  PrefixLock c = at_.acquire(ascending(0, 8) + ascending(500, 8));
  PrefixLock d = at_.acquire(ascending(900, 8));
  EXPECT_EQ(at_.cache->usage().locks, 4);
  b.reset();
  a = std::move(d);
  b.reset();
  c.reset();
  a.reset();
  EXPECT_EQ(at_.cache->usage(), idle);
}

TEST_F(PrefixCacheTest, rows_behind_the_last_state_go_with_the_last_lock) {
  {
    const Donation done = at_.donate(at_.acquire(ascending(0, 32)), ascending(0, 32), {16});
    EXPECT_EQ(at_.cache->usage().pages, 8);
    EXPECT_FALSE(at_.cache->can_make_room({.pages = 999}));
  }
  EXPECT_EQ(at_.cache->usage().pages, 4);
  EXPECT_EQ(at_.match(ascending(0, 32)).usable_tokens, 16);
}

TEST_F(PrefixCacheTest, a_request_without_states_leaves_nothing_behind) {
  at_.run(ascending(0, 32), {});
  EXPECT_EQ(at_.cache->usage(), PrefixUsage{});
  EXPECT_EQ(at_.arena->usage().taken, EntryCounts{});
}

TEST_F(PrefixCacheTest, chunks_of_one_prompt_are_donated_one_after_another) {
  PrefixLock lock = at_.acquire(ascending(0, 40));
  for (const int chunk : {10, 12, 30, 40}) {
    const std::int64_t before = lock.tokens();
    Donation done = at_.donate(std::move(lock), ascending(0, chunk),
                               chunk == 40 ? std::initializer_list<std::int64_t>{24, 40}
                                           : std::initializer_list<std::int64_t>{});
    EXPECT_EQ(done.shared_tokens, before);
    EXPECT_EQ(done.lock.tokens(), chunk / 4 * 4);
    EXPECT_EQ(at_.cache->usage().locked_pages, chunk / 4);
    lock = std::move(done.lock);
  }
  EXPECT_EQ(lock.tokens(), 40);
  lock.reset();
  EXPECT_EQ(at_.match(ascending(0, 26) + ascending(500, 8)).usable_tokens, 24);
  EXPECT_EQ(at_.match(ascending(0, 40)).usable_tokens, 40);
}

TEST_F(PrefixCacheTest, counters_tell_hits_losses_and_causes) {
  at_.run(ascending(0, 32), {32});
  at_.run(ascending(0, 22) + ascending(500, 10), {16});
  { const PrefixLock used = at_.acquire(ascending(0, 32)); }
  const PrefixCounters& counters = at_.cache->counters();
  EXPECT_EQ(counters.lookups, 3);
  EXPECT_EQ(counters.hit_tokens, 32);
  EXPECT_EQ(counters.row_hit_tokens, 52);
  EXPECT_EQ(counters.lost_to_state_tokens, 20);
  EXPECT_EQ(counters.replay_tokens[static_cast<std::size_t>(ReplayCause::kBranch)], 20);
  EXPECT_EQ(counters.planted[static_cast<std::size_t>(CheckpointReason::kTurn)], 2);
  EXPECT_EQ(counters.used[static_cast<std::size_t>(CheckpointReason::kTurn)], 1);
  EXPECT_EQ(counters.path_states[0], 2);
}

TEST_F(PrefixCacheTest, a_grid_off_the_pages_is_refused) {
  const auto refused = [&](PrefixCacheOptions options) {
    return PrefixCache::create(*at_.arena, at_.clock, std::move(options)).error().code;
  };
  EXPECT_EQ(refused({.page_tokens = 16, .grid_tokens = 24, .prefill_cost = quadratic_cost}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(refused({.page_tokens = 0, .prefill_cost = quadratic_cost}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(refused({.max_states_per_path = -1, .prefill_cost = quadratic_cost}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(refused({}), StatusCode::kInvalidArgument);
}

TEST_F(PrefixCacheTest, a_match_that_is_out_of_date_cannot_be_locked) {
  at_.run(ascending(0, 16), {16});
  const PrefixMatch match = at_.match(ascending(0, 16));
  ASSERT_TRUE(at_.cache->evict_one());
  EXPECT_DEATH((void)at_.cache->acquire(at_.name, match), "changed between a match and its lock");
}

TEST_F(PrefixCacheTest, a_state_off_the_grid_cannot_be_donated) {
  EXPECT_DEATH(at_.run(ascending(0, 16), {12}), "off the grid");
  EXPECT_DEATH(at_.run(ascending(0, 16), {24}), "behind the rows");
}

}  // namespace
}  // namespace tandem::testing
