// The arithmetic of the arena: what fits in a byte budget, and where entries lie. Pure functions,
// shared by the allocator and by whoever only asks what would fit.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace tandem {

// kState: the recurrent state of one request or checkpoint. kPage: a fixed number of latent rows.
enum class EntryKind : std::uint8_t { kState, kPage };

// A number of entries of either kind.
struct EntryCounts {
  std::int64_t states = 0;
  std::int64_t pages = 0;

  bool operator==(const EntryCounts&) const = default;
};

// Entries start at multiples of this.
constexpr std::int64_t kEntryAlignment = 64;

// The size of an entry that holds `bytes`: at least one unit, so that a model without recurrent
// state (or without latent rows) needs no special case.
constexpr std::int64_t entry_bytes(std::int64_t bytes) {
  const std::int64_t units = (bytes + kEntryAlignment - 1) / kEntryAlignment;
  return (units > 0 ? units : 1) * kEntryAlignment;
}

// Offsets count from the start of one buffer of `buffer_bytes()`:
//
//   [0, sink)      the sink: padding rows read and write it, nobody else does
//   [sink, ...)    states, index 0 first, upwards
//   [..., buffer)  pages, index 0 last, downwards
//
// The sizes of the kinds are independent: neither divides the other.
struct ArenaGeometry {
  std::int64_t budget_bytes = 0;
  std::int64_t state_bytes = 0;  // a positive multiple of kEntryAlignment
  std::int64_t page_bytes = 0;   // likewise

  // kInvalidArgument for sizes that are none, kResourceExhausted with the sum where the budget does
  // not hold the sink, one state and one page.
  Result<void> check() const;

  constexpr std::int64_t bytes_of(EntryKind kind) const {
    return kind == EntryKind::kState ? state_bytes : page_bytes;
  }
  constexpr std::int64_t buffer_bytes() const { return budget_bytes & -kEntryAlignment; }
  constexpr std::int64_t sink_bytes() const {
    return state_bytes > page_bytes ? state_bytes : page_bytes;
  }
  constexpr std::int64_t usable_bytes() const { return buffer_bytes() - sink_bytes(); }

  // How many entries an arena without any of the other kind holds.
  constexpr std::int64_t max_entries(EntryKind kind) const {
    return usable_bytes() / bytes_of(kind);
  }

  // Whether an arena can hold these together. Needs no negative counts.
  constexpr bool fits(EntryCounts counts) const {
    return counts.states <= max_entries(EntryKind::kState) &&
           counts.pages <= max_entries(EntryKind::kPage) &&
           counts.states * state_bytes + counts.pages * page_bytes <= usable_bytes();
  }

  constexpr std::int64_t offset(EntryKind kind, std::int64_t index) const {
    return kind == EntryKind::kState ? sink_bytes() + index * state_bytes
                                     : buffer_bytes() - (index + 1) * page_bytes;
  }
};

// Padding rows of both kinds share the sink; what it holds means nothing.
constexpr std::int64_t kSinkOffset = 0;

}  // namespace tandem
