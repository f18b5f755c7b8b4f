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

  // Takes an unused name for `position`, the one last returned first. There must be one.
  std::uint32_t bind(std::uint32_t position) {
    const std::uint32_t index = unused_.back();
    unused_.pop_back();
    rebind(index, position);
    return index;
  }
  // The entry moved to `position`.
  void rebind(std::uint32_t index, std::uint32_t position) {
    names_[index].position = position;
    index_[position] = index;
  }
  // From here on whoever still holds the name is recognised as late.
  void expire(std::uint32_t index) { ++names_[index].generation; }
  // The name is unused again.
  void unbind(std::uint32_t index) {
    names_[index].position = kNone;
    unused_.push_back(index);
  }

  std::uint32_t position(std::uint32_t index) const { return names_[index].position; }
  // Of a position that is taken; the table does not know which are.
  std::uint32_t index_at(std::uint32_t position) const { return index_[position]; }
  std::uint32_t generation(std::uint32_t index) const { return names_[index].generation; }
  // Whether the name is in use and of this generation. Any index may be asked.
  bool names(std::uint32_t index, std::uint32_t generation) const {
    return index < names_.size() && names_[index].generation == generation &&
           names_[index].position != kNone;
  }
  std::uint32_t capacity() const { return static_cast<std::uint32_t>(names_.size()); }
  std::uint32_t used() const { return static_cast<std::uint32_t>(names_.size() - unused_.size()); }

  // kInternal with the first contradiction found. O(capacity).
  Result<void> integrity_check() const;

 private:
  // In one word, since a free at random waits for its cache line and for nothing else.
  struct Name {
    std::uint32_t position = kNone;  // kNone: unused
    std::uint32_t generation = 0;
  };

  std::vector<Name> names_;
  std::vector<std::uint32_t> index_;   // by position; stale where no entry lies
  std::vector<std::uint32_t> unused_;  // names, a stack
};

}  // namespace tandem
