#include "memory/sub_pool_positions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace tandem {
namespace {

TEST(PositionSetTest, empty_and_full_sets_are_recognised) {
  for (std::uint32_t capacity : {1u, 63u, 64u, 65u, 128u, 4096u, 4097u, 8192u}) {
    PositionSet set(capacity);
    EXPECT_EQ(set.end(), 0u) << capacity;
    EXPECT_EQ(set.lowest_absent(), 0u) << capacity;
    for (std::uint32_t i = 0; i < capacity; ++i) {
      EXPECT_EQ(set.lowest_absent(), i);
      set.insert(i);
      EXPECT_EQ(set.end(), i + 1);
    }
    EXPECT_GE(set.lowest_absent(), capacity);
    EXPECT_TRUE(set.integrity_check().has_value());
    for (std::uint32_t i = capacity; i > 0; --i) {
      set.erase(i - 1);
      EXPECT_EQ(set.end(), i - 1);
      EXPECT_EQ(set.lowest_absent(), i - 1);
    }
    EXPECT_TRUE(set.integrity_check().has_value());
  }
}

// Dense and sparse phases in turn, so that words fill up and run empty on every level.
TEST(PositionSetTest, answers_like_an_ordered_set) {
  std::mt19937 random(7);
  for (std::uint32_t capacity : {1u, 5u, 64u, 200u, 4096u, 10'000u, 300'000u}) {
    PositionSet set(capacity);
    std::set<std::uint32_t> present;
    for (int i = 0; i < 20'000; ++i) {
      const bool dense = i / 2000 % 2 == 0;
      const bool add = random() % 10 < (dense ? 9u : 1u);
      const std::uint32_t drawn = static_cast<std::uint32_t>(random() % capacity);
      const std::uint32_t low = set.lowest_absent();
      const std::uint32_t position = dense && low < capacity && random() % 2 == 0 ? low : drawn;
      if (add) {
        if (present.insert(position).second) set.insert(position);
      } else if (present.erase(position) > 0) {
        set.erase(position);
      }
      if (i % 16 == 0) {
        std::uint32_t absent = 0;
        for (auto it = present.begin(); it != present.end() && *it == absent; ++it) ++absent;
        ASSERT_EQ(std::min(set.lowest_absent(), capacity), absent);
      }
      ASSERT_EQ(set.end(), present.empty() ? 0 : *present.rbegin() + 1);
      ASSERT_EQ(set.contains(drawn), present.count(drawn) == 1);
    }
    EXPECT_TRUE(set.integrity_check().has_value());
  }
}

}  // namespace
}  // namespace tandem
