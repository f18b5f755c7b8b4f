// The comparisons between the shadow and the arena.
#include <algorithm>

#include "memory/arena_testing.h"

namespace tandem::testing {
namespace {

std::uint64_t cell(std::uint64_t content, std::int64_t i) {
  return (content + static_cast<std::uint64_t>(i)) * 0x9E37'79B9'7F4A'7C15;
}

}  // namespace

EntryCounts ArenaShadow::counts() const {
  EntryCounts counts{.states = static_cast<std::int64_t>(states_.size()),
                     .pages = static_cast<std::int64_t>(pages_.size())};
  for (const auto& [serial, kind] : given_up_) {
    ++(kind == EntryKind::kState ? counts.states : counts.pages);
  }
  return counts;
}

// How many entries from its kind's end of the buffer the entry at `offset` is, itself included.
std::int64_t ArenaShadow::position_end(EntryKind kind, std::int64_t offset) const {
  const std::int64_t sink = std::max(geometry_.state_bytes, geometry_.page_bytes);
  return kind == EntryKind::kState ? (offset - sink) / geometry_.state_bytes + 1
                                   : (geometry_.budget_bytes - offset) / geometry_.page_bytes;
}

bool ArenaShadow::fits(EntryCounts need, EntryCounts freed) const {
  EntryCounts after = counts();
  after.states += need.states - freed.states;
  after.pages += need.pages - freed.pages;
  for (const Reader& reader : readers_) {
    std::int64_t& end = reader.kind == EntryKind::kState ? after.states : after.pages;
    end = std::max(end, position_end(reader.kind, reader.offset));
  }
  return after.states * geometry_.state_bytes + after.pages * geometry_.page_bytes <=
         geometry_.budget_bytes - std::max(geometry_.state_bytes, geometry_.page_bytes);
}

std::int64_t ArenaShadow::free_bytes() const {
  return geometry_.budget_bytes - std::max(geometry_.state_bytes, geometry_.page_bytes) -
         counts().states * geometry_.state_bytes - counts().pages * geometry_.page_bytes;
}

void ArenaShadow::write(std::int64_t offset, std::int64_t bytes, std::uint64_t content) {
  for (std::int64_t i = 0; i < bytes / 64; ++i) {
    cells_[static_cast<std::size_t>(offset / 64 + i)] = cell(content, i);
  }
}

bool ArenaShadow::holds(std::int64_t offset, std::int64_t bytes, std::uint64_t content) const {
  for (std::int64_t i = 0; i < bytes / 64; ++i) {
    if (cells_[static_cast<std::size_t>(offset / 64 + i)] != cell(content, i)) return false;
  }
  return true;
}

template <EntryKind K>
Result<void> ArenaShadow::check_contents() {
  for (const Owned<K>& entry : owned<K>()) {
    const std::int64_t offset = arena_->offset(entry.handle.id());
    if (!holds(offset, geometry_.bytes_of(K), entry.content)) {
      return wrong("the contents of entry {} at {} are lost", entry.serial, offset);
    }
  }
  return {};
}

// Every byte has one tenant, states lie below pages and neither in the sink.
Result<void> ArenaShadow::check_places() {
  std::map<std::int64_t, std::pair<std::int64_t, std::uint64_t>> places;  // begin -> end, serial
  EntryCounts ends;
  const auto add = [&](EntryKind kind, std::int64_t offset, std::uint64_t serial) -> Result<void> {
    std::int64_t& end = kind == EntryKind::kState ? ends.states : ends.pages;
    end = std::max(end, position_end(kind, offset));
    const auto [place, is_new] =
        places.emplace(offset, std::pair(offset + geometry_.bytes_of(kind), serial));
    if (is_new || place->second.second == serial) return {};
    return wrong("entries {} and {} both lie at {}", place->second.second, serial, offset);
  };
  for (const auto& entry : states_) {
    TRY(add(EntryKind::kState, arena_->offset(entry.handle.id()), entry.serial));
  }
  for (const auto& entry : pages_) {
    TRY(add(EntryKind::kPage, arena_->offset(entry.handle.id()), entry.serial));
  }
  for (const Reader& reader : readers_) TRY(add(reader.kind, reader.offset, reader.serial));
  std::int64_t begin = std::max(geometry_.state_bytes, geometry_.page_bytes);
  for (const auto& [offset, place] : places) {
    if (offset < begin) return wrong("two entries (or the sink) overlap at {}", offset);
    begin = place.first;
  }
  const ArenaUsage usage = arena_->usage();
  if (begin > geometry_.budget_bytes) return wrong("an entry ends at {}", begin);
  if (ends.states - counts().states != usage.holes.states ||
      ends.pages - counts().pages != usage.holes.pages) {
    return wrong("{} and {} holes reported", usage.holes.states, usage.holes.pages);
  }
  return {};
}

Result<void> ArenaShadow::check_usage() const {
  const ArenaUsage usage = arena_->usage();
  std::array<std::int64_t, kStateOwners> owners{};
  for (const auto& entry : states_) ++owners[static_cast<std::size_t>(entry.owner)];
  EntryCounts pending;
  for (const auto& [serial, kind] : given_up_) {
    ++(kind == EntryKind::kState ? pending.states : pending.pages);
  }
  owners[static_cast<std::size_t>(StateOwner::kReader)] = pending.states;
  std::map<std::uint64_t, EntryKind> read;
  for (const Reader& reader : readers_) read.emplace(reader.serial, reader.kind);
  EntryCounts pinned;
  for (const auto& [serial, kind] : read) {
    ++(kind == EntryKind::kState ? pinned.states : pinned.pages);
  }
  if (usage.taken != counts() || usage.pending != pending || usage.pinned != pinned ||
      usage.states != owners) {
    return wrong("{} states and {} pages are reported, not {} and {}", usage.taken.states,
                 usage.taken.pages, counts().states, counts().pages);
  }
  const std::int64_t sink = std::max(geometry_.state_bytes, geometry_.page_bytes);
  if (usage.hole_bytes + usage.gap_bytes != free_bytes() ||
      sink + usage.state_bytes + usage.page_bytes + usage.hole_bytes + usage.gap_bytes !=
          geometry_.budget_bytes) {
    return wrong("{} bytes of holes and a gap of {} make no {} free bytes", usage.hole_bytes,
                 usage.gap_bytes, free_bytes());
  }
  const std::int64_t states = arena_->headroom(EntryKind::kState);
  const std::int64_t pages = arena_->headroom(EntryKind::kPage);
  if (!fits({.states = states}, {}) || fits({.states = states + 1}, {}) ||
      !fits({.pages = pages}, {}) || fits({.pages = pages + 1}, {})) {
    return wrong("{} states or {} pages are said to fit at most", states, pages);
  }
  if (arena_->counters().freed_bytes != freed_bytes_ || moved_bytes_ > freed_bytes_ ||
      arena_->counters().moved_bytes != moved_bytes_) {
    return wrong("{} bytes moved for {} freed", moved_bytes_, freed_bytes_);
  }
  return {};
}

Result<void> ArenaShadow::check() {
  TRY(publish());
  TRY(arena_->integrity_check());
  TRY(check_places());
  TRY(check_usage());
  TRY(check_contents<EntryKind::kState>());
  TRY(check_contents<EntryKind::kPage>());
  for (const Reader& reader : readers_) {
    if (!holds(reader.offset, geometry_.bytes_of(reader.kind), reader.content)) {
      return wrong("entry {} changed at {} under its reader", reader.serial, reader.offset);
    }
    if (reader.pin && reader.pin.offset() != reader.offset) {
      return wrong("entry {} moved under its reader", reader.serial);
    }
  }
  return {};
}

}  // namespace tandem::testing
