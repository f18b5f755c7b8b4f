// Bytes on their way to a client, in blocks. What a slow client leaves unread can grow large; a
// string would copy all of it each time it runs out of capacity, and streams that are fed in step
// would all do so in the same step.
//
// Not thread-safe. Blocks stay where they are until their bytes are consumed, so spans of
// unread() may be written from while more is appended.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string_view>

namespace tandem {

class OutputQueue {
 public:
  // Small enough that a step that gives every stream a new block touches little fresh memory, large
  // enough that an event rarely needs two.
  static constexpr std::size_t kBlockBytes = 1024;
  // Parts that unread() gives at a time; what is beyond comes after the next consume().
  static constexpr std::size_t kMaxParts = 64;

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  void append(std::string_view text);

  // The oldest bytes, in order. Valid until they are consumed or the queue is destroyed.
  struct Parts {
    std::array<std::span<const char>, kMaxParts> parts;
    std::size_t count = 0;
  };
  Parts unread() const;

  // Forgets the first `bytes`, at most size().
  void consume(std::size_t bytes);

 private:
  using Block = std::array<char, kBlockBytes>;

  std::deque<std::unique_ptr<Block>> blocks_;
  std::size_t first_ = 0;  // of the first block, where the unread bytes begin
  std::size_t size_ = 0;
};

}  // namespace tandem
