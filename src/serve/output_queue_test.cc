#include "serve/output_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

namespace tandem {
namespace {

std::string text_of(const OutputQueue::Parts& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.count; ++i) {
    text.append(parts.parts[i].data(), parts.parts[i].size());
  }
  return text;
}

// As many bytes as writes of network buffers have: within a block, whole blocks, several.
rc::Gen<std::size_t> any_length() {
  constexpr std::size_t kBlock = OutputQueue::kBlockBytes;
  return rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 300),
                        rc::gen::inRange<std::size_t>(kBlock - 2, kBlock + 3),
                        rc::gen::inRange<std::size_t>(0, 20 * kBlock));
}

TEST(OutputQueue, gives_back_the_bytes_in_order) {
  const bool holds = rc::check([] {
    OutputQueue queue;
    std::string expected;
    char next = 0;
    const auto steps = *rc::gen::inRange(1, 60);
    for (int step = 0; step < steps; ++step) {
      std::string text(*any_length(), ' ');
      for (char& c : text) c = next++;
      queue.append(text);
      expected += text;
      RC_ASSERT(queue.size() == expected.size());
      RC_ASSERT(queue.empty() == expected.empty());
      const std::string unread = text_of(queue.unread());
      RC_ASSERT(expected.compare(0, unread.size(), unread) == 0);
      // All there is, or as many whole blocks as come at a time.
      RC_ASSERT(unread.size() == expected.size() ||
                unread.size() > (OutputQueue::kMaxParts - 1) * OutputQueue::kBlockBytes);
      const std::size_t consumed = std::min(unread.size(), *any_length());
      queue.consume(consumed);
      expected.erase(0, consumed);
    }
  });
  EXPECT_TRUE(holds);
}

TEST(OutputQueue, unread_bytes_stay_in_place_while_more_is_appended) {
  OutputQueue queue;
  queue.append("first");
  const OutputQueue::Parts parts = queue.unread();
  for (int i = 0; i < 100; ++i) queue.append(std::string(997, 'x'));
  EXPECT_EQ(text_of(parts), "first");
  EXPECT_EQ(queue.unread().parts[0].data(), parts.parts[0].data());
}

}  // namespace
}  // namespace tandem
