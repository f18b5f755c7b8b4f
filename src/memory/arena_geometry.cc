#include "memory/arena_geometry.h"

#include <limits>

namespace tandem {
namespace {

constexpr std::int64_t kMaxEntries = std::numeric_limits<std::uint32_t>::max() - 1;

Result<void> check_entry(std::string_view name, std::int64_t bytes) {
  if (bytes <= 0 || bytes % kEntryAlignment != 0) {
    return invalid("{} is {} bytes; expected a positive multiple of {}", name, bytes,
                   kEntryAlignment);
  }
  return {};
}

}  // namespace

Result<void> ArenaGeometry::check() const {
  TRY(check_entry("a state", state_bytes));
  TRY(check_entry("a page", page_bytes));
  // Compared without a sum, which could overflow.
  const bool holds_one_each = state_bytes <= buffer_bytes() &&
                              page_bytes <= buffer_bytes() - state_bytes &&
                              sink_bytes() <= buffer_bytes() - state_bytes - page_bytes;
  if (!holds_one_each) {
    return fail(StatusCode::kResourceExhausted,
                "{} bytes of cache memory hold no request: padding takes {}, one state {} and one "
                "page {} bytes",
                budget_bytes, sink_bytes(), state_bytes, page_bytes);
  }
  for (EntryKind kind : {EntryKind::kState, EntryKind::kPage}) {
    if (max_entries(kind) > kMaxEntries) {
      return invalid("{} bytes of cache memory hold {} entries of {} bytes; at most {} have names",
                     budget_bytes, max_entries(kind), bytes_of(kind), kMaxEntries);
    }
  }
  return {};
}

}  // namespace tandem
