// The memory of one sequence in buffers of its own: for tests and measurements that run a model
// without an engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/aligned_buffer.h"
#include "tensor/huge_buffer.h"
#include "tensor/state_layout.h"

namespace tandem {

// Owns both; grows page by page. Move-only.
class SequenceMemory {
 public:
  // The state block starts as zeros, which is the state before the first token.
  SequenceMemory(const StateLayout& layout, std::int64_t page_tokens)
      : layout_(layout),
        page_tokens_(page_tokens),
        state_(HugeBuffer::allocate(static_cast<std::size_t>(layout.state_bytes)).value()) {}

  // Makes pages for positions [0, tokens).
  void reserve_tokens(std::int64_t tokens) {
    while (static_cast<std::int64_t>(pages_.size()) * page_tokens_ < tokens) {
      pages_.emplace_back(static_cast<std::size_t>(page_tokens_ * layout_.row_bytes));
      page_pointers_.push_back(pages_.back().data());
    }
  }

  std::byte* state() { return state_.data(); }
  std::span<std::byte* const> pages() const { return page_pointers_; }
  std::int64_t page_tokens() const { return page_tokens_; }

 private:
  StateLayout layout_;
  std::int64_t page_tokens_;
  HugeBuffer state_;
  std::vector<AlignedBuffer<std::byte>> pages_;
  std::vector<std::byte*> page_pointers_;
};

}  // namespace tandem
