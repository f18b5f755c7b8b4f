// Names, owners and readers of arena entries (arena.h).
#pragma once

#include <compare>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "memory/arena_geometry.h"

namespace tandem {

class Arena;

// The copyable name of one entry, for tables and plans. It stays valid when compaction moves the
// entry and never keeps the entry alive; a use after the entry was given back fails a CHECK,
// because the generation has moved on. (Generations are 32 bits and wrap.)
template <EntryKind K>
struct EntryId {
  std::uint32_t index = 0xFFFF'FFFF;  // names nothing
  std::uint32_t generation = 0;

  auto operator<=>(const EntryId&) const = default;
};

using StateId = EntryId<EntryKind::kState>;
using PageId = EntryId<EntryKind::kPage>;

// The one owner of an entry; gives it back when destroyed. Move-only: a moved-from handle is empty,
// so nothing is given back twice. Must not outlive the arena. Owned by the planner thread.
template <EntryKind K>
class EntryHandle {
 public:
  EntryHandle() = default;
  EntryHandle(EntryHandle&& other) noexcept
      : arena_(std::exchange(other.arena_, nullptr)), id_(std::exchange(other.id_, {})) {}
  EntryHandle& operator=(EntryHandle&& other) noexcept {
    if (this != &other) {
      reset();
      arena_ = std::exchange(other.arena_, nullptr);
      id_ = std::exchange(other.id_, {});
    }
    return *this;
  }
  ~EntryHandle() { reset(); }

  explicit operator bool() const { return arena_ != nullptr; }

  // Names the entry. Not for an empty handle.
  EntryId<K> id() const {
    CHECK(arena_ != nullptr, "an empty handle names no entry");
    return id_;
  }

  // Gives the entry back; the handle is empty afterwards. Entries are reusable at once: whoever
  // writes next is enqueued on the forward stream behind the last reader. An entry with reader pins
  // stays occupied until the last pin is dropped.
  void reset() {
    if (arena_ != nullptr) release();
  }

 private:
  friend class Arena;
  EntryHandle(Arena* arena, EntryId<K> id) : arena_(arena), id_(id) {}
  void release();

  Arena* arena_ = nullptr;
  EntryId<K> id_;
};

using StateHandle = EntryHandle<EntryKind::kState>;
using PageHandle = EntryHandle<EntryKind::kPage>;

// Keeps the bytes of one entry where they are, for a reader on another stream than the forward
// stream (a copy to the host, a transfer). While it lives the entry is not moved and its bytes are
// not handed to anybody else, even if its owner gives it back; the owner must not write it.
// Move-only, dropped when destroyed. Must not outlive the arena. Owned by the planner thread.
class ReaderPin {
 public:
  ReaderPin() = default;
  ReaderPin(ReaderPin&& other) noexcept
      : arena_(std::exchange(other.arena_, nullptr)), kind_(other.kind_), index_(other.index_) {}
  ReaderPin& operator=(ReaderPin&& other) noexcept {
    if (this != &other) {
      reset();
      arena_ = std::exchange(other.arena_, nullptr);
      kind_ = other.kind_;
      index_ = other.index_;
    }
    return *this;
  }
  ~ReaderPin() { reset(); }

  explicit operator bool() const { return arena_ != nullptr; }
  void reset() {
    if (arena_ != nullptr) release();
  }

  // Where the bytes lie, from the start of the buffer; constant for the life of the pin.
  std::int64_t offset() const;

 private:
  friend class Arena;
  ReaderPin(Arena* arena, EntryKind kind, std::uint32_t index)
      : arena_(arena), kind_(kind), index_(index) {}
  void release();

  Arena* arena_ = nullptr;
  EntryKind kind_ = EntryKind::kState;
  std::uint32_t index_ = 0;
};

extern template class EntryHandle<EntryKind::kState>;
extern template class EntryHandle<EntryKind::kPage>;

}  // namespace tandem
