// The set of taken positions of a sub-pool.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace tandem {

// A set of positions in [0, capacity) as a tree of bit words, 64 children each. Every operation
// walks its few levels: four for 16 million positions. All memory is taken by the constructor.
// Not thread-safe.
class PositionSet {
 public:
  explicit PositionSet(std::uint32_t capacity);

  void insert(std::uint32_t position);
  void erase(std::uint32_t position);
  bool contains(std::uint32_t position) const {
    return (any_[0][position >> 6] >> (position & 63) & 1) != 0;
  }

  // The lowest position that is absent; capacity or more if none is.
  std::uint32_t lowest_absent() const;
  // One past the highest position that is present; 0 if none is.
  std::uint32_t end() const;

  // kInternal if the summaries contradict the set. O(capacity).
  Result<void> integrity_check() const;

 private:
  using Words = std::vector<std::uint64_t>;
  // Level 0 holds one bit a position. A bit of a higher level tells of one word below whether any,
  // and whether each, of its bits is set. `full_` marks words that do not exist as full and has no
  // level 0 of its own.
  std::vector<Words> any_;
  std::vector<Words> full_;
};

}  // namespace tandem
