// The memory of one request: its recurrent state block and its pages of latent rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/aligned_buffer.h"
#include "tensor/state_layout.h"

namespace tandem {

// Owns both; grows page by page. Move-only, owned by one step loop.
class SequenceMemory {
 public:
  // The state block starts as zeros, which is the state before the first token.
  SequenceMemory(const StateLayout& layout, std::int64_t page_tokens);

  // Makes pages for positions [0, tokens).
  void reserve_tokens(std::int64_t tokens);

  std::byte* state() { return state_.data(); }
  std::span<std::byte* const> pages() const { return page_pointers_; }
  std::int64_t page_tokens() const { return page_tokens_; }

 private:
  StateLayout layout_;
  std::int64_t page_tokens_;
  AlignedBuffer<std::byte> state_;
  std::vector<AlignedBuffer<std::byte>> pages_;
  std::vector<std::byte*> page_pointers_;
};

}  // namespace tandem
