#include "memory/sequence_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem {
namespace {

TEST(SequenceMemoryTest, a_new_state_is_all_zero) {
  SequenceMemory memory({.state_bytes = 4096, .row_bytes = 16}, 8);
  EXPECT_TRUE(std::all_of(memory.state(), memory.state() + 4096,
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST(SequenceMemoryTest, grows_by_whole_pages_and_keeps_what_is_there) {
  SequenceMemory memory({.state_bytes = 64, .row_bytes = 16}, 8);
  EXPECT_EQ(memory.pages().size(), 0u);
  memory.reserve_tokens(1);
  ASSERT_EQ(memory.pages().size(), 1u);
  std::byte* first = memory.pages()[0];
  first[0] = std::byte{42};
  memory.reserve_tokens(8);
  EXPECT_EQ(memory.pages().size(), 1u);
  memory.reserve_tokens(9);
  ASSERT_EQ(memory.pages().size(), 2u);
  EXPECT_EQ(memory.pages()[0], first);
  EXPECT_EQ(first[0], std::byte{42});
}

TEST(SequenceMemoryTest, models_without_recurrent_state_are_possible) {
  SequenceMemory memory({.state_bytes = 0, .row_bytes = 16}, 8);
  memory.reserve_tokens(3);
  EXPECT_EQ(memory.pages().size(), 1u);
}

}  // namespace
}  // namespace tandem
