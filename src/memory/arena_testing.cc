#include "memory/arena_testing.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::testing {
namespace {

constexpr std::size_t kMaxReaders = 12;

}  // namespace

std::ostream& operator<<(std::ostream& stream, const Operation& operation) {
  constexpr const char* kNames[] = {"work",   "ping",    "pages",   "free_state", "free_pages",
                                    "donate", "advance", "pin",     "unpin",      "fenced_pin",
                                    "pass",   "publish", "compact", "exchange"};
  return stream << kNames[operation.kind] << '(' << operation.a << ", " << operation.b << ')';
}

ArenaShadow::ArenaShadow(const ArenaGeometry& geometry) : geometry_(geometry) {
  auto arena = Arena::create(geometry);
  CHECK(arena.has_value(), "{}", arena.error().message);
  arena_ = *std::move(arena);
  cells_.resize(static_cast<std::size_t>(geometry.budget_bytes / 64));
}

// --- Steps --------------------------------------------------------------------------------------

Result<void> ArenaShadow::execute(const Move& move) {
  if (move.bytes != geometry_.bytes_of(move.kind)) return wrong("a move of {} bytes", move.bytes);
  for (std::int64_t offset : {move.src_offset, move.dst_offset}) {
    if (offset < std::max(geometry_.state_bytes, geometry_.page_bytes)) {
      return wrong("a move touches the sink at {}", offset);
    }
    for (const Reader& reader : readers_) {
      if (offset < reader.offset + geometry_.bytes_of(reader.kind) &&
          reader.offset < offset + move.bytes) {
        return wrong("a move at {} touches entry {}, which is read", offset, reader.serial);
      }
    }
  }
  const auto at = [this](std::int64_t offset) { return cells_.begin() + offset / 64; };
  std::copy(at(move.src_offset), at(move.src_offset + move.bytes), at(move.dst_offset));
  moved_bytes_ += move.bytes;
  return {};
}

template <EntryKind K>
void ArenaShadow::write_fresh() {
  for (Owned<K>& entry : owned<K>()) {
    if (!std::exchange(entry.is_fresh, false)) continue;
    write(arena_->offset(entry.handle.id()), geometry_.bytes_of(K), entry.content);
  }
}

Result<void> ArenaShadow::publish() {
  arena_->take_moves(moves_);
  for (const Move& move : moves_) TRY(execute(move));
  write_fresh<EntryKind::kState>();
  write_fresh<EntryKind::kPage>();
  return {};
}

Result<void> ArenaShadow::compact() {
  arena_->compact_all();
  TRY(publish());
  const ArenaUsage usage = arena_->usage();
  if (readers_.empty() && (usage.hole_bytes != 0 || usage.gap_bytes != free_bytes())) {
    return wrong("{} bytes of holes after compaction", usage.hole_bytes);
  }
  return {};
}

// --- Owners -------------------------------------------------------------------------------------

template <EntryKind K>
Result<void> ArenaShadow::adopt(EntryHandle<K> handle, StateOwner owner) {
  const EntryId<K> id = handle.id();
  const auto [known, is_new] =
      generations_[static_cast<std::size_t>(K)].emplace(id.index, id.generation);
  if (!is_new && std::exchange(known->second, id.generation) >= id.generation) {
    return wrong("name {} came back with generation {}", id.index, id.generation);
  }
  const std::uint64_t serial = next_serial_++;
  owned<K>().push_back(
      {.handle = std::move(handle), .serial = serial, .content = serial << 20, .owner = owner});
  return {};
}

template <EntryKind K>
bool ArenaShadow::has_reader(const Owned<K>& entry) const {
  return std::any_of(readers_.begin(), readers_.end(),
                     [&](const Reader& reader) { return reader.serial == entry.serial; });
}

template <EntryKind K>
void ArenaShadow::give_back(std::size_t index) {
  std::vector<Owned<K>>& entries = owned<K>();
  if (has_reader(entries[index])) {
    given_up_.emplace(entries[index].serial, K);
  } else {
    freed_bytes_ += geometry_.bytes_of(K);
  }
  std::swap(entries[index], entries.back());
  entries.pop_back();
}

Result<void> ArenaShadow::allocate_state(StateOwner owner, std::uint32_t a) {
  const bool expected = fits({.states = 1}, {});
  const ArenaUsage before = arena_->usage();
  const std::int64_t moves = arena_->counters().moves;
  const RequestId request{a};
  StateHandle handle = owner == StateOwner::kWork
                           ? arena_->allocate_work(request)
                           : arena_->allocate_ping(request, static_cast<int>(a % 2));
  if (static_cast<bool>(handle) != expected) {
    return wrong("a state was {} although {}", handle ? "allocated" : "refused",
                 expected ? "it fits" : "it does not fit");
  }
  if (handle) return adopt(std::move(handle), owner);
  if (arena_->usage() != before || arena_->counters().moves != moves) {
    return wrong("a refused state changed something");
  }
  return {};
}

Result<void> ArenaShadow::allocate_pages(std::size_t count) {
  const bool expected = fits({.pages = static_cast<std::int64_t>(count)}, {});
  const ArenaUsage before = arena_->usage();
  const std::int64_t moves = arena_->counters().moves;
  std::vector<PageHandle> handles(count);
  if (arena_->allocate_pages(handles) != expected) {
    return wrong("{} pages were {}", count, expected ? "refused" : "allocated");
  }
  if (expected) {
    for (PageHandle& handle : handles) TRY(adopt(std::move(handle), StateOwner::kNobody));
  } else if (arena_->usage() != before || arena_->counters().moves != moves) {
    return wrong("refused pages changed something");
  }
  return {};
}

void ArenaShadow::free_pages(std::uint32_t a, std::uint32_t b) {
  for (std::uint32_t i = 0; i <= b % 8 && !pages_.empty(); ++i) {
    give_back<EntryKind::kPage>((a + i) % pages_.size());
  }
}

void ArenaShadow::donate(std::uint32_t a) {
  if (states_.empty()) return;
  auto& state = states_[a % states_.size()];
  if (state.owner == StateOwner::kTree) return;
  arena_->donate(state.handle, NodeId{a}, std::int64_t{64} * a);
  state.owner = StateOwner::kTree;
}

void ArenaShadow::advance(std::uint32_t a) {
  if (states_.empty()) return;
  auto& state = states_[a % states_.size()];
  if (state.owner != StateOwner::kWork || has_reader(state)) return;
  state.content += std::uint64_t{1} << 16;
  state.is_fresh = true;
}

// Evictions and admissions of both kinds in one plan, in either order of allocation.
Result<void> ArenaShadow::exchange(std::uint32_t a, std::uint32_t b) {
  const auto take_unread = [this]<EntryKind K>(std::vector<Owned<K>>& entries, std::uint32_t most) {
    const auto unread = std::stable_partition(
        entries.begin(), entries.end(), [this](const auto& entry) { return has_reader(entry); });
    return std::min<std::int64_t>(most, entries.end() - unread);
  };
  const EntryCounts freed{.states = take_unread(states_, a % 3),
                          .pages = take_unread(pages_, a / 3 % 7)};
  const EntryCounts need{.states = b % 3, .pages = b / 3 % 9};
  const bool expected = fits(need, freed);
  if (arena_->can_allocate_after_freeing(need, freed) != expected) {
    return wrong("{} states and {} pages for {} and {} were said to {}", need.states, need.pages,
                 freed.states, freed.pages, expected ? "be too many" : "fit");
  }
  for (std::int64_t i = 0; i < freed.states; ++i) give_back<EntryKind::kState>(states_.size() - 1);
  for (std::int64_t i = 0; i < freed.pages; ++i) give_back<EntryKind::kPage>(pages_.size() - 1);
  if (arena_->can_allocate(need) != expected) return wrong("the joint test changed its mind");
  const EntryCounts before = counts();
  for (int turn = 0; turn < 2; ++turn) {
    if ((turn + static_cast<int>(a & 1)) % 2 == 0) {
      for (std::int64_t i = 0; i < need.states; ++i) TRY(allocate_state(StateOwner::kWork, a));
    } else {
      TRY(allocate_pages(static_cast<std::size_t>(need.pages)));
    }
  }
  const bool got_all = counts() == EntryCounts{.states = before.states + need.states,
                                               .pages = before.pages + need.pages};
  return got_all == expected ? Result<void>() : wrong("the joint test was wrong");
}

// --- Readers ------------------------------------------------------------------------------------

// A transfer starts after a step was handed over, so there is no planned move that it would race.
Result<void> ArenaShadow::add_reader(std::uint32_t a, std::optional<std::uint64_t> fence) {
  if (states_.size() + pages_.size() == 0 || readers_.size() >= kMaxReaders) return {};
  TRY(publish());
  Reader reader;
  const std::size_t index = a % (states_.size() + pages_.size());
  const auto read = [&]<EntryKind K>(const Owned<K>& entry) {
    reader.pin = arena_->pin(entry.handle.id());
    reader.kind = K;
    reader.serial = entry.serial;
    reader.content = entry.content;
    reader.offset = arena_->offset(entry.handle.id());
  };
  index < states_.size() ? read(states_[index]) : read(pages_[index - states_.size()]);
  if (fence) {
    reader.fence = *fence;
    arena_->keep_until(Fence{*fence}, std::move(reader.pin));
  }
  readers_.push_back(std::move(reader));
  return {};
}

// Before the pin goes the bytes must be what they were when it came.
Result<void> ArenaShadow::drop_reader(std::size_t index) {
  const Reader reader = std::move(readers_[index]);
  readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(index));
  if (!holds(reader.offset, geometry_.bytes_of(reader.kind), reader.content)) {
    return wrong("entry {} changed under its reader", reader.serial);
  }
  const bool is_last = std::none_of(readers_.begin(), readers_.end(), [&](const Reader& other) {
    return other.serial == reader.serial;
  });
  if (is_last && given_up_.erase(reader.serial) > 0) {
    freed_bytes_ += geometry_.bytes_of(reader.kind);
  }
  return {};
}

Result<void> ArenaShadow::pass() {
  ++fence_;
  for (std::size_t i = readers_.size(); i-- > 0;) {
    if (readers_[i].fence != 0 && readers_[i].fence <= fence_) TRY(drop_reader(i));
  }
  arena_->pass(Fence{fence_});
  return {};
}

Result<void> ArenaShadow::apply(const Operation& operation) {
  const auto [kind, a, b] = operation;
  switch (kind) {
    case Operation::kWork:
      return allocate_state(StateOwner::kWork, a);
    case Operation::kPing:
      return allocate_state(StateOwner::kPing, a);
    case Operation::kPages:
      return allocate_pages(1 + a % 8);
    case Operation::kFreeState:
      if (!states_.empty()) give_back<EntryKind::kState>(a % states_.size());
      return {};
    case Operation::kFreePages:
      free_pages(a, b);
      return {};
    case Operation::kDonate:
      donate(a);
      return {};
    case Operation::kAdvance:
      advance(a);
      return {};
    case Operation::kPin:
      return add_reader(a, std::nullopt);
    case Operation::kFencedPin:
      return add_reader(a, fence_ + 1 + b % 3);
    case Operation::kUnpin:
      // Fenced readers end with their fence.
      if (readers_.empty() || readers_[a % readers_.size()].fence != 0) return {};
      return drop_reader(a % readers_.size());
    case Operation::kPass:
      return pass();
    case Operation::kPublish:
      return publish();
    case Operation::kCompact:
      return compact();
    case Operation::kExchange:
      return exchange(a, b);
    case Operation::kKinds:
      break;
  }
  return wrong("no such operation");
}

Result<void> ArenaShadow::finish() {
  TRY(check());
  while (!states_.empty()) give_back<EntryKind::kState>(0);
  while (!pages_.empty()) give_back<EntryKind::kPage>(0);
  TRY(check());
  while (!readers_.empty()) TRY(readers_[0].fence != 0 ? pass() : drop_reader(0));
  TRY(check());
  const ArenaUsage usage = arena_->usage();
  if (usage.taken != EntryCounts{} || usage.gap_bytes != geometry_.usable_bytes()) {
    return wrong("{} states and {} pages are left over", usage.taken.states, usage.taken.pages);
  }
  return {};
}

}  // namespace tandem::testing
