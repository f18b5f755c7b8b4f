#include "memory/sequence_memory.h"

#include <cstring>

namespace tandem {

SequenceMemory::SequenceMemory(const StateLayout& layout, std::int64_t page_tokens)
    : layout_(layout),
      page_tokens_(page_tokens),
      state_(static_cast<std::size_t>(layout.state_bytes)) {
  if (state_.size() != 0) std::memset(state_.data(), 0, state_.size());
}

void SequenceMemory::reserve_tokens(std::int64_t tokens) {
  while (static_cast<std::int64_t>(pages_.size()) * page_tokens_ < tokens) {
    pages_.emplace_back(static_cast<std::size_t>(layout_.row_bytes * page_tokens_));
    page_pointers_.push_back(pages_.back().data());
  }
}

}  // namespace tandem
