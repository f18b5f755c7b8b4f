#include "serve/output_queue.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {

void OutputQueue::append(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = first_ + size_;
    if (end == blocks_.size() * kBlockBytes) {
      // Not value-initialised: its bytes are written before they are read.
      blocks_.push_back(std::unique_ptr<Block>(new Block));
    }
    const std::size_t at = end % kBlockBytes;
    const std::size_t bytes = std::min(text.size(), kBlockBytes - at);
    std::copy_n(text.data(), bytes, blocks_.back()->data() + at);
    size_ += bytes;
    text.remove_prefix(bytes);
  }
}

OutputQueue::Parts OutputQueue::unread() const {
  Parts unread;
  std::size_t begin = first_;
  std::size_t left = size_;
  for (const auto& block : blocks_) {
    if (left == 0 || unread.count == kMaxParts) break;
    const std::size_t bytes = std::min(left, kBlockBytes - begin);
    unread.parts[unread.count++] = {block->data() + begin, bytes};
    left -= bytes;
    begin = 0;
  }
  return unread;
}

void OutputQueue::consume(std::size_t bytes) {
  CHECK(bytes <= size_, "{} bytes consumed of {}", bytes, size_);
  first_ += bytes;
  size_ -= bytes;
  for (; first_ >= kBlockBytes; first_ -= kBlockBytes) blocks_.pop_front();
  // Idle connections keep no memory.
  if (size_ == 0) {
    blocks_.clear();
    first_ = 0;
  }
}

}  // namespace tandem
