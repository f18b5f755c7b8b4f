// Virtual names of the entries of one kind, and where each lies at present.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace tandem {

// A two-way table between names (what everybody above stores) and positions (what compaction
// changes). Each name has a generation, which steps whenever the name's owner gives it up.
// All memory is taken by the constructor. Not thread-safe.
class IdTable {
 public:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  // Names and positions are both in [0, capacity).
  explicit IdTable(std::uint32_t capacity);

  // Takes an unused name for `position`, the one last returned first.
  std::uint32_t bind(std::uint32_t position);
  // The entry moved to `position`, which must be unused.
  void rebind(std::uint32_t index, std::uint32_t position);
  // From here on whoever still holds the name is recognised as late.
  void expire(std::uint32_t index) { ++generation_[index]; }
  // The name is unused again.
  void unbind(std::uint32_t index);

  std::uint32_t position(std::uint32_t index) const { return position_[index]; }
  std::uint32_t index_at(std::uint32_t position) const { return index_[position]; }
  std::uint32_t generation(std::uint32_t index) const { return generation_[index]; }
  // Whether the name is in use and of this generation. Any index may be asked.
  bool names(std::uint32_t index, std::uint32_t generation) const {
    return index < position_.size() && generation_[index] == generation &&
           position_[index] != kNone;
  }
  std::uint32_t used() const {
    return static_cast<std::uint32_t>(position_.size() - unused_.size());
  }

  // kInternal with the first contradiction found. O(capacity).
  Result<void> integrity_check() const;

 private:
  std::vector<std::uint32_t> position_;    // by name; kNone: unused
  std::vector<std::uint32_t> index_;       // by position; kNone: no entry there
  std::vector<std::uint32_t> generation_;  // by name
  std::vector<std::uint32_t> unused_;      // names, a stack
};

}  // namespace tandem
