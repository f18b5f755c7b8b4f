#include "memory/sub_pool_positions.h"

#include <algorithm>
#include <bit>

namespace tandem {
namespace {

constexpr std::uint64_t kFull = ~std::uint64_t{0};

std::uint64_t bit(std::uint32_t position) { return std::uint64_t{1} << (position & 63); }

}  // namespace

PositionSet::PositionSet(std::uint32_t capacity) {
  std::size_t words = std::max<std::size_t>(1, (std::size_t{capacity} + 63) / 64);
  any_.emplace_back(words, 0);
  full_.emplace_back();
  while (words > 1) {
    const std::size_t children = words;
    words = (children + 63) / 64;
    any_.emplace_back(words, 0);
    full_.emplace_back(words, 0);
    if (children % 64 != 0) full_.back().back() = kFull << (children % 64);
  }
}

void PositionSet::insert(std::uint32_t position) {
  std::uint64_t& word = any_[0][position >> 6];
  const bool was_empty = word == 0;
  word |= bit(position);
  const bool is_full = word == kFull;
  std::uint32_t child = position >> 6;
  if (was_empty) {
    for (std::size_t l = 1; l < any_.size(); ++l, child >>= 6) {
      std::uint64_t& parent = any_[l][child >> 6];
      const bool known = parent != 0;
      parent |= bit(child);
      if (known) break;
    }
  }
  child = position >> 6;
  if (is_full) {
    for (std::size_t l = 1; l < full_.size(); ++l, child >>= 6) {
      std::uint64_t& parent = full_[l][child >> 6];
      parent |= bit(child);
      if (parent != kFull) break;
    }
  }
}

void PositionSet::erase(std::uint32_t position) {
  std::uint64_t& word = any_[0][position >> 6];
  const bool was_full = word == kFull;
  word &= ~bit(position);
  const bool is_empty = word == 0;
  std::uint32_t child = position >> 6;
  if (was_full) {
    for (std::size_t l = 1; l < full_.size(); ++l, child >>= 6) {
      std::uint64_t& parent = full_[l][child >> 6];
      const bool parent_was_full = parent == kFull;
      parent &= ~bit(child);
      if (!parent_was_full) break;
    }
  }
  child = position >> 6;
  if (is_empty) {
    for (std::size_t l = 1; l < any_.size(); ++l, child >>= 6) {
      std::uint64_t& parent = any_[l][child >> 6];
      parent &= ~bit(child);
      if (parent != 0) break;
    }
  }
}

std::uint32_t PositionSet::lowest_absent() const {
  std::uint32_t at = 0;
  for (std::size_t l = any_.size(); l-- > 0;) {
    const std::uint64_t word = l == 0 ? any_[0][at] : full_[l][at];
    // Only the topmost word can be full: below it the parent's bit says otherwise.
    if (word == kFull) return static_cast<std::uint32_t>(any_[0].size() * 64);
    at = at * 64 + static_cast<std::uint32_t>(std::countr_one(word));
  }
  return at;
}

std::uint32_t PositionSet::end() const {
  if (any_.back()[0] == 0) return 0;
  std::uint32_t at = 0;
  for (std::size_t l = any_.size(); l-- > 0;) {
    at = at * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(any_[l][at]));
  }
  return at + 1;
}

Result<void> PositionSet::integrity_check() const {
  for (std::size_t l = 1; l < any_.size(); ++l) {
    const Words& full_below = l == 1 ? any_[0] : full_[l - 1];
    for (std::uint32_t child = 0; child < any_[l - 1].size(); ++child) {
      const bool any = (any_[l][child >> 6] & bit(child)) != 0;
      const bool full = (full_[l][child >> 6] & bit(child)) != 0;
      if (any != (any_[l - 1][child] != 0) || full != (full_below[child] == kFull)) {
        return fail(StatusCode::kInternal, "the summary of level {} is wrong at word {}", l, child);
      }
    }
  }
  return {};
}

}  // namespace tandem
