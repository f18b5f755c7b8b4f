#include "memory/request_memory.h"

#include <gtest/gtest.h>

#include "memory/prefix_testing.h"

namespace tandem::testing {
namespace {

// Pages of 4 tokens, grid 8; a state is as large as three pages.
class RequestMemoryTest : public ::testing::Test {
 protected:
  explicit RequestMemoryTest(std::int64_t budget_pages = 100)
      : at({.page_tokens = 4, .grid_tokens = 8}, budget_pages) {}

  RequestMemory request(std::uint64_t id) {
    return RequestMemory(*at.arena, *at.cache, RequestId{id});
  }
  PrefixMatch match(const std::vector<TokenId>& tokens) const {
    return at.cache->match(at.name, tokens, static_cast<std::int64_t>(tokens.size()) - 1);
  }
  // Admits, computes and donates `tokens` with a state at their end, and ends.
  void cached(const std::vector<TokenId>& tokens) {
    RequestMemory first = request(100);
    const auto size = static_cast<std::int64_t>(tokens.size());
    ASSERT_TRUE(first.admit(at.name, match(tokens), {.states = 1}));
    first.release_checkpoint();
    ASSERT_TRUE(first.grow(size));
    ASSERT_TRUE(first.add_snapshot(size, CheckpointReason::kTurn));
    first.donate(tokens, size);
  }
  EntryCounts taken() const { return at.arena->usage().taken; }
  std::vector<PageId> pages(const RequestMemory& of) const {
    return {of.pages().begin(), of.pages().end()};
  }

  CacheFixture at;
};

class SmallRequestMemoryTest : public RequestMemoryTest {
 protected:
  SmallRequestMemoryTest() : RequestMemoryTest(12) {}
};

TEST_F(RequestMemoryTest, holds_nothing_before_it_is_admitted_and_after_it_is_released) {
  {
    RequestMemory memory = request(1);
    EXPECT_FALSE(memory.admitted());
    EXPECT_EQ(memory.owned(), EntryCounts{});
    ASSERT_TRUE(memory.admit(at.name, match(ascending(0, 20)), {.states = 1, .pages = 5}));
    EXPECT_TRUE(memory.admitted());
    EXPECT_EQ(at.arena->meta(memory.work()).owner, StateOwner::kWork);
    ASSERT_TRUE(memory.grow(20));
    ASSERT_TRUE(memory.add_snapshot(8, CheckpointReason::kTurn));
    EXPECT_EQ(memory.owned(), (EntryCounts{.states = 2, .pages = 5}));
    EXPECT_EQ(taken(), memory.owned());
    memory.release();
    EXPECT_FALSE(memory.admitted());
    EXPECT_EQ(memory.owned(), EntryCounts{});
    EXPECT_EQ(at.cache->usage().locks, 0);
    EXPECT_EQ(taken(), EntryCounts{});
    // Ready for another time; the destructor gives back, too.
    ASSERT_TRUE(memory.admit(at.name, match(ascending(0, 20)), {.states = 1}));
    EXPECT_TRUE(memory.pages().empty());
    ASSERT_TRUE(memory.grow(1));
  }
  EXPECT_EQ(taken(), EntryCounts{});
  EXPECT_EQ(at.cache->usage().locks, 0);
}

TEST_F(RequestMemoryTest, grows_by_whole_pages_and_keeps_those_that_it_has) {
  RequestMemory memory = request(1);
  ASSERT_TRUE(memory.admit(at.name, match(ascending(0, 20)), {.states = 1}));
  EXPECT_EQ(memory.missing_pages(0), 0);
  EXPECT_EQ(memory.missing_pages(4), 1);
  EXPECT_EQ(memory.missing_pages(5), 2);
  ASSERT_TRUE(memory.grow(5));
  const std::vector<PageId> before = pages(memory);
  EXPECT_EQ(before.size(), 2u);
  EXPECT_EQ(memory.missing_pages(8), 0);
  ASSERT_TRUE(memory.grow(8));
  EXPECT_EQ(pages(memory), before);
  ASSERT_TRUE(memory.grow(13));
  EXPECT_EQ(memory.pages().size(), 4u);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), memory.pages().begin()));
}

TEST_F(RequestMemoryTest, starts_with_the_trees_pages_and_its_checkpoint) {
  cached(ascending(0, 16));
  const EntryCounts tree = taken();
  RequestMemory memory = request(1);
  ASSERT_TRUE(memory.admit(at.name, match(ascending(0, 20)), {.states = 1}));
  ASSERT_TRUE(memory.has_checkpoint());
  EXPECT_EQ(at.arena->meta(memory.checkpoint()).depth_tokens, 16);
  EXPECT_NE(memory.checkpoint(), memory.work());
  EXPECT_EQ(memory.pages().size(), 4u);
  EXPECT_EQ(memory.owned(), (EntryCounts{.states = 1}));
  // Until it was read it may not go; its rows not before the request ends.
  EXPECT_FALSE(at.cache->evict_one());
  memory.release_checkpoint();
  EXPECT_FALSE(memory.has_checkpoint());
  EXPECT_TRUE(at.cache->evict_one());
  EXPECT_EQ(taken(), (EntryCounts{.states = 1, .pages = tree.pages}));
  memory.release();
  EXPECT_EQ(taken(), EntryCounts{});
}

TEST_F(SmallRequestMemoryTest, an_admission_that_fails_leaves_no_trace) {
  cached(ascending(0, 16));  // 3 + 4 of 12
  const EntryCounts before = taken();
  const std::uint64_t digest = at.cache->digest();
  const std::int64_t lookups = at.cache->counters().lookups;
  RequestMemory memory = request(1);
  // Beside its checkpoint and 4 pages there is room for the working state and 2 pages.
  EXPECT_FALSE(memory.admit(at.name, match(ascending(0, 30)), {.states = 1, .pages = 3}));
  EXPECT_FALSE(memory.admitted());
  EXPECT_EQ(taken(), before);
  EXPECT_EQ(at.cache->digest(), digest);
  EXPECT_EQ(at.cache->counters().lookups, lookups);
  EXPECT_EQ(at.cache->usage().locks, 0);
  EXPECT_TRUE(memory.admit(at.name, match(ascending(0, 30)), {.states = 1, .pages = 2}));
  EXPECT_TRUE(memory.grow(24));
}

TEST_F(SmallRequestMemoryTest,
       evicts_for_admission_growth_and_snapshots_and_stops_where_all_is_held) {
  cached(ascending(0, 16));
  RequestMemory memory = request(1);
  ASSERT_TRUE(memory.admit(at.name, match(ascending(500, 30)), {.states = 1, .pages = 9}));
  ASSERT_TRUE(memory.grow(24));  // 3 + 6 of 12
  EXPECT_EQ(at.cache->usage().states, 0);
  EXPECT_FALSE(memory.grow(40));  // not even by a part
  EXPECT_EQ(memory.pages().size(), 6u);
  ASSERT_TRUE(memory.add_snapshot(8, CheckpointReason::kTurn));
  EXPECT_FALSE(memory.add_snapshot(16, CheckpointReason::kTurn));
  EXPECT_EQ(memory.snapshot_count(), 1);
  EXPECT_FALSE(memory.grow(25));
  memory.drop_snapshots();
  EXPECT_TRUE(memory.grow(25));
}

TEST_F(RequestMemoryTest, of_committed_snapshots_only_the_deepest_stays) {
  RequestMemory memory = request(1);
  ASSERT_TRUE(memory.admit(at.name, match(ascending(0, 40)), {.states = 1}));
  ASSERT_TRUE(memory.grow(40));
  for (const std::int64_t depth : {8, 16, 24}) {
    ASSERT_TRUE(memory.add_snapshot(depth, CheckpointReason::kAnswer));
    EXPECT_EQ(at.arena->meta(memory.last_snapshot()).owner, StateOwner::kPing);
  }
  memory.drop_older_snapshots(7);
  EXPECT_EQ(memory.snapshot_count(), 3);
  memory.drop_older_snapshots(15);
  EXPECT_EQ(memory.snapshot_count(), 3);
  memory.drop_older_snapshots(16);  // 8 goes; 24 was not computed yet
  EXPECT_EQ(memory.snapshot_count(), 2);
  memory.drop_older_snapshots(40);
  EXPECT_EQ(memory.snapshot_count(), 1);
  memory.donate(ascending(0, 40), 40);
  EXPECT_EQ(match(ascending(0, 40)).usable_tokens, 24);
}

TEST_F(RequestMemoryTest, donates_only_what_is_committed) {
  RequestMemory memory = request(1);
  ASSERT_TRUE(memory.admit(at.name, match(ascending(0, 40)), {.states = 1}));
  ASSERT_TRUE(memory.grow(30));
  ASSERT_TRUE(memory.add_snapshot(8, CheckpointReason::kAnswer));
  ASSERT_TRUE(memory.add_snapshot(16, CheckpointReason::kAnswer));
  const std::vector<PageId> before = pages(memory);
  memory.donate(ascending(0, 40), 7);
  EXPECT_EQ(at.cache->usage().pages, 0);
  memory.donate(ascending(0, 40), 15);
  EXPECT_EQ(match(ascending(0, 40)).usable_tokens, 8);
  EXPECT_EQ(at.cache->usage().pages, 2);
  EXPECT_EQ(memory.snapshot_count(), 1);
  EXPECT_EQ(memory.owned(), (EntryCounts{.states = 2, .pages = 6}));
  EXPECT_EQ(pages(memory), before);
  memory.donate(ascending(0, 40), 16);
  EXPECT_EQ(match(ascending(0, 40)).usable_tokens, 16);
  memory.release();
  EXPECT_EQ(taken(), (EntryCounts{.states = 2, .pages = 4}));
}

TEST_F(RequestMemoryTest, reads_the_trees_pages_where_another_was_first) {
  RequestMemory late = request(1);
  ASSERT_TRUE(late.admit(at.name, match(ascending(0, 16)), {.states = 1}));
  ASSERT_TRUE(late.grow(20));
  const std::vector<PageId> own = pages(late);
  cached(ascending(0, 16));
  ASSERT_TRUE(late.add_snapshot(16, CheckpointReason::kTurn));
  late.donate(ascending(0, 20), 16);
  EXPECT_EQ(late.owned(), (EntryCounts{.states = 1, .pages = 1}));
  EXPECT_EQ(taken(), (EntryCounts{.states = 2, .pages = 5}));
  ASSERT_EQ(late.pages().size(), 5u);
  EXPECT_EQ(late.pages()[4], own[4]);
  const std::vector<PageId> now = pages(late);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NE(now[i], own[i]);
  for (const PageId page : now) EXPECT_GE(at.arena->offset(page), 0);  // none was given back
  EXPECT_EQ(at.cache->counters().duplicate_pages, 4);
  EXPECT_EQ(at.cache->counters().duplicate_states, 1);
}

TEST_F(RequestMemoryTest, donations_on_top_of_each_other_share_all_rows_before) {
  RequestMemory memory = request(1);
  ASSERT_TRUE(memory.admit(at.name, match(ascending(0, 40)), {.states = 1}));
  for (std::int64_t depth = 8; depth <= 40; depth += 8) {
    ASSERT_TRUE(memory.grow(depth));
    ASSERT_TRUE(memory.add_snapshot(depth, CheckpointReason::kChunk));
    memory.donate(ascending(0, 40), depth);
    EXPECT_EQ(memory.owned(), (EntryCounts{.states = 1}));
    EXPECT_EQ(at.cache->usage().states, depth / 8);
    EXPECT_EQ(at.cache->usage().locked_pages, depth / 4);
  }
  const Result<void> sound = at.cache->integrity_check();
  EXPECT_TRUE(sound) << sound.error().message;
}

TEST_F(RequestMemoryTest, may_be_moved) {
  RequestMemory memory = request(1);
  ASSERT_TRUE(memory.admit(at.name, match(ascending(0, 16)), {.states = 1}));
  ASSERT_TRUE(memory.grow(16));
  RequestMemory other = std::move(memory);
  EXPECT_EQ(other.owned(), (EntryCounts{.states = 1, .pages = 4}));
  EXPECT_EQ(taken(), other.owned());
  other.release();
  EXPECT_EQ(taken(), EntryCounts{});
}

}  // namespace
}  // namespace tandem::testing
