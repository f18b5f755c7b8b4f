#include "memory/eviction_order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "memory/prefix_testing.h"
#include "memory/radix_tree.h"

namespace tandem::testing {
namespace {

constexpr std::int64_t kPage = 4;

// A tree built by hand, whose states the order ranks.
class EvictionOrderTest : public ::testing::Test {
 protected:
  EvictionOrderTest() : order_(at_.arena->geometry(), quadratic_cost, at_.clock), tree_(kPage) {}

  RadixNode& root() { return tree_.root(at_.name); }
  RadixNode& add(RadixNode& parent, TokenId first, int tokens, bool with_state = true) {
    std::vector<PageHandle> pages = at_.new_pages(tokens / kPage);
    RadixNode& node = tree_.append(parent, ascending(first, tokens), pages);
    if (with_state) {
      node.state = at_.arena->allocate_work(RequestId{1});
      order_.start(node);
      order_.insert(node);
    }
    return node;
  }
  double per_byte(std::int64_t from, std::int64_t to, EntryCounts freed) {
    return (quadratic_cost(to) - quadratic_cost(from)) /
           static_cast<double>(freed.states * CacheFixture::kStateBytes +
                               freed.pages * CacheFixture::kPageBytes);
  }

  CacheFixture at_{{.page_tokens = kPage, .grid_tokens = kPage}};
  EvictionOrder order_;
  RadixTree tree_;
};

TEST_F(EvictionOrderTest, an_inner_state_is_worth_the_gap_over_its_own_bytes) {
  RadixNode& upper = add(root(), 0, 8);
  RadixNode& lower = add(upper, 0, 12);
  (void)add(lower, 0, 4);
  EXPECT_EQ(EvictionOrder::freed_by(lower), (EntryCounts{.states = 1}));
  EXPECT_DOUBLE_EQ(order_.value(lower), per_byte(8, 20, {.states = 1}));
  EXPECT_DOUBLE_EQ(order_.value(upper), per_byte(0, 8, {.states = 1}));
}

// The shape of the cost changes the order at once; its scale, as of a faster machine, changes
// nothing.
TEST_F(EvictionOrderTest, what_is_learnt_of_the_cost_reaches_states_that_are_in_already) {
  RadixNode& shallow = add(root(), 0, 8);
  RadixNode& deep_end = add(add(root(), 100, 400, false), 0, 4);
  const double before = order_.value(shallow);
  ASSERT_EQ(order_.least(), &shallow);
  order_.learn([](std::int64_t tokens) { return 0.001 * quadratic_cost(tokens); });
  EXPECT_NEAR(order_.value(shallow), before, 1e-9 * before);
  EXPECT_EQ(order_.least(), &shallow);
  // Were deep tokens nearly free, the many rows of the deep one would be ill spent.
  order_.learn([](std::int64_t tokens) { return std::min(100.0, static_cast<double>(tokens)); });
  EXPECT_EQ(order_.least(), &deep_end);
  EXPECT_DOUBLE_EQ(deep_end.eviction.value, order_.value(deep_end));
}

TEST_F(EvictionOrderTest, a_leaf_is_weighed_with_the_rows_that_would_go_with_it) {
  RadixNode& upper = add(root(), 0, 8);
  RadixNode& tombstone = add(upper, 0, 8, false);
  RadixNode& leaf = add(tombstone, 0, 4);
  EXPECT_EQ(EvictionOrder::freed_by(leaf), (EntryCounts{.states = 1, .pages = 3}));
  EXPECT_DOUBLE_EQ(order_.value(leaf), per_byte(8, 20, {.states = 1, .pages = 3}));
  (void)add(tombstone, 50, 4);
  EXPECT_EQ(EvictionOrder::freed_by(leaf), (EntryCounts{.states = 1, .pages = 1}));
}

TEST_F(EvictionOrderTest, rows_under_a_lock_do_not_count_as_freed) {
  RadixNode& upper = add(root(), 0, 8, false);
  RadixNode& leaf = add(upper, 0, 4);
  upper.row_locks = 1;
  EXPECT_EQ(EvictionOrder::freed_by(leaf), (EntryCounts{.states = 1, .pages = 1}));
  leaf.row_locks = 1;
  EXPECT_EQ(EvictionOrder::freed_by(leaf), (EntryCounts{.states = 1}));
}

TEST_F(EvictionOrderTest, use_adds_to_the_frequency_which_time_halves) {
  RadixNode& node = add(root(), 0, 8);
  order_.touch(node);
  EXPECT_DOUBLE_EQ(node.eviction.frequency, 2);
  at_.clock.advance(EvictionOrder::kFrequencyHalfLife);
  order_.touch(node);
  EXPECT_DOUBLE_EQ(node.eviction.frequency, 2);
  at_.clock.advance(2 * EvictionOrder::kFrequencyHalfLife);
  order_.touch(node);
  EXPECT_DOUBLE_EQ(node.eviction.frequency, 1.5);
  EXPECT_EQ(order_.least(), &node);
}

TEST_F(EvictionOrderTest, the_clock_lets_what_is_not_used_sink) {
  RadixNode& old = add(root(), 0, 12);
  RadixNode& victim = add(root(), 100, 8);
  EXPECT_EQ(order_.least(), &victim);
  order_.advance(victim);
  order_.erase(victim);
  EXPECT_DOUBLE_EQ(order_.clock_value(), order_.value(victim));
  RadixNode& fresh = add(root(), 200, 12);
  EXPECT_DOUBLE_EQ(order_.value(fresh), order_.value(old) + order_.clock_value());
  EXPECT_EQ(order_.least(), &old);
}

TEST_F(EvictionOrderTest, a_value_that_rose_is_found_out_at_the_top) {
  RadixNode& upper = add(root(), 0, 32);
  RadixNode& lower = add(upper, 0, 4);
  RadixNode& other = add(root(), 100, 16);
  EXPECT_EQ(order_.least(), &lower);
  order_.erase(upper);
  upper.state.reset();  // nobody is told
  EXPECT_EQ(order_.least(), &other);
  EXPECT_EQ(lower.eviction.value, order_.value(lower));
}

TEST_F(EvictionOrderTest, of_equal_values_the_older_node_goes_first) {
  RadixNode& first = add(root(), 300, 8);
  RadixNode& second = add(root(), 100, 8);
  EXPECT_EQ(order_.value(first), order_.value(second));
  EXPECT_EQ(order_.least(), &first);
  order_.erase(first);
  order_.insert(first);
  EXPECT_EQ(order_.least(), &first);
}

}  // namespace
}  // namespace tandem::testing
