// One end of the arena: the entries of one kind, in units of positions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "memory/id_table.h"
#include "memory/sub_pool_positions.h"

namespace tandem {

// Positions 0, 1, 2, ... from the kind's end of the arena towards the middle. Those below the
// frontier are taken or holes; the last one below it is always taken. Knows nothing of bytes or of
// the other kind: the arena asks for room first. All memory is taken by the constructor, and no
// operation but integrity_check takes time that grows with the number of entries. Not thread-safe.
class SubPool {
 public:
  struct Relocation {
    std::uint32_t index;  // the name of the entry that moved
    std::uint32_t from;
    std::uint32_t to;
  };

  explicit SubPool(std::uint32_t capacity);

  std::uint32_t capacity() const { return ids_.capacity(); }
  std::uint32_t taken() const { return ids_.used(); }
  std::uint32_t frontier() const { return frontier_; }
  std::uint32_t holes() const { return frontier_ - taken(); }
  // Given up by their owners and kept by a pin.
  std::uint32_t pending() const { return pending_; }
  std::uint32_t pinned() const { return pinned_entries_; }

  // The frontier after all moves that pins allow, had the kind `count` entries: holes are filled
  // from above, but no pinned entry leaves its place.
  std::int64_t least_frontier(std::int64_t count) const {
    return std::max<std::int64_t>(count, pinned_positions_.end());
  }

  // Takes the hole deepest from the middle, else the position at the frontier; returns a name.
  std::uint32_t allocate();

  // The owner gives the entry up: its name expires. True if the position is free now, false if a
  // pin keeps it.
  bool release(std::uint32_t index);

  void pin(std::uint32_t index);
  // True if this was the last pin of an entry without an owner: its position is free now.
  bool unpin(std::uint32_t index);
  bool is_pinned(std::uint32_t index) const { return readers_[index].pins != 0; }

  // Moves the entry next to the middle into the deepest hole. Needs a hole, and no pin on it.
  Relocation move_last();

  const IdTable& ids() const { return ids_; }

  // kInternal with the first contradiction found. O(capacity).
  Result<void> integrity_check() const;

 private:
  struct Readers {
    std::uint16_t pins = 0;
    bool is_pending = false;  // without owner, kept by the pins
  };

  void vacate(std::uint32_t index);

  IdTable ids_;
  PositionSet positions_;         // taken
  PositionSet pinned_positions_;  // taken, with pins
  std::vector<Readers> readers_;  // by name
  std::uint32_t frontier_ = 0;
  std::uint32_t pending_ = 0;
  std::uint32_t pinned_entries_ = 0;
};

}  // namespace tandem
