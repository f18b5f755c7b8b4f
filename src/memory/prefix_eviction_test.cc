#include <gtest/gtest.h>

#include "memory/prefix_testing.h"

namespace tandem::testing {
namespace {

constexpr std::int64_t kPage = 4;

void expect_sound(const CacheFixture& at) {
  const Result<void> sound = at.cache->integrity_check();
  EXPECT_TRUE(sound.has_value()) << sound.error().message;
}

TEST(PrefixEvictionTest, evicting_a_leaf_gives_its_state_and_its_rows_back) {
  CacheFixture at({.page_tokens = kPage, .grid_tokens = kPage});
  at.run(ascending(0, 16), {16});
  ASSERT_TRUE(at.cache->evict_one());
  EXPECT_EQ(at.arena->usage().taken, EntryCounts{});
  EXPECT_EQ(at.cache->usage(), PrefixUsage{});
  EXPECT_FALSE(at.cache->evict_one());
  EXPECT_EQ(at.cache->counters().evicted_unused, 1);
}

TEST(PrefixEvictionTest, evicting_the_last_state_of_a_path_takes_the_tombstones_above) {
  CacheFixture at({.page_tokens = kPage, .grid_tokens = kPage});
  at.run(ascending(0, 16), {4, 8, 16});
  while (at.cache->usage().states > 1) {
    ASSERT_TRUE(at.cache->evict_one());
    expect_sound(at);
  }
  ASSERT_TRUE(at.cache->evict_one());
  EXPECT_EQ(at.arena->usage().taken, EntryCounts{});
}

TEST(PrefixEvictionTest, evicting_one_branch_keeps_the_other_and_joins_its_edge) {
  CacheFixture at({.page_tokens = kPage, .grid_tokens = kPage});
  at.run(ascending(0, 16), {16});
  at.run(ascending(0, 8) + ascending(500, 32), {40});
  EXPECT_EQ(at.cache->usage().nodes, 4);
  ASSERT_TRUE(at.cache->evict_one());
  expect_sound(at);
  EXPECT_EQ(at.cache->usage().nodes, 2);
  EXPECT_EQ(at.match(ascending(0, 8) + ascending(500, 32)).usable_tokens, 40);
}

TEST(PrefixEvictionTest, room_is_made_for_either_kind_or_nothing_is_evicted) {
  CacheFixture at({.page_tokens = kPage, .grid_tokens = kPage}, 20);
  at.run(ascending(0, 16), {16});
  at.run(ascending(100, 16), {16});
  EXPECT_EQ(at.arena->usage().gap_bytes, 6 * CacheFixture::kPageBytes);
  EXPECT_TRUE(at.cache->evict_until({.states = 2}));
  EXPECT_EQ(at.cache->usage().states, 2);
  EXPECT_TRUE(at.cache->evict_until({.states = 1, .pages = 6}));
  EXPECT_EQ(at.cache->usage().states, 1);
  EXPECT_TRUE(at.arena->can_allocate({.states = 1, .pages = 6}));
  EXPECT_FALSE(at.cache->evict_until({.states = 1, .pages = 18}));
  EXPECT_EQ(at.cache->usage().states, 1);
  const PrefixLock lock = at.acquire(ascending(100, 16));
  EXPECT_FALSE(at.cache->can_make_room({.pages = 14}));
  EXPECT_TRUE(at.cache->can_make_room({.pages = 13}));
}

TEST(PrefixEvictionTest, a_state_under_a_reader_pin_is_passed_over) {
  CacheFixture at({.page_tokens = kPage, .grid_tokens = kPage});
  at.run(ascending(0, 8), {8});
  at.run(ascending(100, 16), {16});
  ReaderPin pin;
  {
    const PrefixLock lock = at.acquire(ascending(0, 8));
    pin = at.arena->pin(lock.state());
  }
  ASSERT_TRUE(at.cache->evict_one());
  EXPECT_EQ(at.match(ascending(0, 8)).usable_tokens, 8);
  EXPECT_FALSE(at.cache->evict_one());
  expect_sound(at);
  pin.reset();
  EXPECT_TRUE(at.cache->evict_one());
}

TEST(PrefixEvictionTest, a_leaf_whose_page_is_pinned_is_passed_over) {
  CacheFixture at({.page_tokens = kPage, .grid_tokens = kPage});
  at.run(ascending(0, 8), {8});
  std::vector<PageId> pages;
  {
    const PrefixLock lock = at.acquire(ascending(0, 8));
    at.cache->pages_of(lock, 0, pages);
  }
  ReaderPin pin = at.arena->pin(pages.front());
  EXPECT_FALSE(at.cache->evict_one());
  pin.reset();
  EXPECT_TRUE(at.cache->evict_one());
}

TEST(PrefixEvictionTest, use_of_a_deep_state_does_not_refresh_those_above) {
  CacheFixture at({.page_tokens = kPage, .grid_tokens = kPage});
  at.run(ascending(0, 64), {4, 64});
  at.run(ascending(200, 8), {8});
  for (int i = 0; i < 10; ++i) (void)at.acquire(ascending(0, 64));
  ASSERT_TRUE(at.cache->evict_one());
  EXPECT_EQ(at.match(ascending(0, 8)).usable_tokens, 0);
  EXPECT_EQ(at.match(ascending(200, 8)).usable_tokens, 8);
}

TEST(PrefixEvictionTest, a_fork_that_many_use_outlives_longer_ends_that_none_use) {
  CacheFixture at({.page_tokens = kPage, .grid_tokens = kPage});
  at.run(ascending(0, 16), {16});
  for (int i = 0; i < 8; ++i) at.run(ascending(0, 16) + ascending(100 + 100 * i, 24), {40});
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(at.cache->evict_one());
  EXPECT_EQ(at.match(ascending(0, 20)).usable_tokens, 16);
  EXPECT_EQ(at.cache->usage().states, 2);
}

TEST(PrefixEvictionTest, a_path_keeps_its_deepest_states_under_a_cap) {
  CacheFixture at({.page_tokens = kPage, .grid_tokens = kPage, .max_states_per_path = 2});
  at.run(ascending(0, 32), {8, 16, 24, 32});
  EXPECT_EQ(at.cache->usage().states, 2);
  EXPECT_EQ(at.match(ascending(0, 30)).usable_tokens, 24);
  EXPECT_EQ(at.match(ascending(0, 20)).usable_tokens, 0);
  EXPECT_EQ(at.match(ascending(0, 20)).replay, ReplayCause::kEvicted);
  const auto cap = static_cast<std::size_t>(EvictionCause::kPathCap);
  EXPECT_EQ(at.cache->counters().evicted_states[cap], 2);
  expect_sound(at);
}

TEST(PrefixEvictionTest, forks_and_locked_states_are_excepted_from_the_cap) {
  CacheFixture at({.page_tokens = kPage, .grid_tokens = 8, .max_states_per_path = 1});
  at.run(ascending(0, 8), {8});
  const PrefixLock lock = at.acquire(ascending(0, 8));
  at.run(ascending(0, 32), {32});
  EXPECT_EQ(at.match(ascending(0, 8)).usable_tokens, 8);
  // The fork is at 20, its state on the grid before it, at 16.
  at.run(ascending(0, 20) + ascending(500, 12), {16, 32});
  EXPECT_EQ(at.match(ascending(0, 20)).usable_tokens, 16);
  EXPECT_EQ(at.cache->usage().states, 4);
}

TEST(PrefixEvictionTest, equal_calls_make_equal_decisions) {
  const auto trace = [](CacheFixture& at) {
    for (int i = 0; i < 40; ++i) {
      (void)at.cache->evict_until({.states = 2, .pages = 12});
      const TokenId branch = 100 * (i * 7 % 5);
      at.run(ascending(0, 8 + 4 * (i % 4)) + ascending(branch, 16), {8, 24});
      at.clock.advance(std::chrono::seconds(i));
    }
  };
  CacheFixture a({.page_tokens = kPage, .grid_tokens = 8}, 40);
  CacheFixture b({.page_tokens = kPage, .grid_tokens = 8}, 40);
  trace(a);
  trace(b);
  EXPECT_GT(a.cache->counters().evicted_unused, 0);
  EXPECT_EQ(a.cache->digest(), b.cache->digest());
  (void)b.acquire(ascending(0, 8));
  EXPECT_NE(a.cache->digest(), b.cache->digest());
}

}  // namespace
}  // namespace tandem::testing
