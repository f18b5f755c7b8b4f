#include "memory/arena.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

constexpr EntryKind other(EntryKind kind) {
  return kind == EntryKind::kState ? EntryKind::kPage : EntryKind::kState;
}

std::uint32_t capacity(const ArenaGeometry& geometry, EntryKind kind) {
  return static_cast<std::uint32_t>(geometry.max_entries(kind));
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::create(const ArenaGeometry& geometry) {
  TRY(geometry.check());
  return std::unique_ptr<Arena>(new Arena(geometry));
}

Arena::Arena(const ArenaGeometry& geometry)
    : geometry_(geometry),
      states_(capacity(geometry, EntryKind::kState)),
      pages_(capacity(geometry, EntryKind::kPage)),
      metas_(states_.capacity()) {}

Arena::~Arena() {
  fenced_.clear();
  CHECK(states_.taken() == 0 && pages_.taken() == 0,
        "an arena dies before the owners or readers of {} states and {} pages", states_.taken(),
        pages_.taken());
}

// --- Room ---------------------------------------------------------------------------------------

// Compaction can bring each kind down to its least frontier, independently of the other; so the
// least frontiers fit next to each other exactly if the allocation can succeed.
bool Arena::can_allocate_after_freeing(EntryCounts need, EntryCounts freed) const {
  CHECK(need.states >= 0 && need.pages >= 0 && freed.states >= 0 && freed.pages >= 0 &&
            freed.states <= states_.taken() && freed.pages <= pages_.taken(),
        "no such counts: need {} states and {} pages, freed {} of {} and {} of {}", need.states,
        need.pages, freed.states, states_.taken(), freed.pages, pages_.taken());
  // Before the sum, which could overflow.
  if (need.states > states_.capacity() || need.pages > pages_.capacity()) return false;
  return geometry_.fits(
      {.states = states_.least_frontier(states_.taken() - freed.states + need.states),
       .pages = pages_.least_frontier(pages_.taken() - freed.pages + need.pages)});
}

std::int64_t Arena::headroom(EntryKind kind) const {
  const SubPool& peer = pool(other(kind));
  const std::int64_t bytes = geometry_.usable_bytes() -
                             peer.least_frontier(peer.taken()) * geometry_.bytes_of(other(kind));
  return bytes / geometry_.bytes_of(kind) - pool(kind).taken();
}

std::int64_t Arena::span_bytes(EntryKind kind) const {
  return pool(kind).frontier() * geometry_.bytes_of(kind);
}

// Makes room for `count` allocations of one kind, by moving entries of the other kind if the gap is
// too small. Its own holes are part of the room: filling them by moves would gain nothing.
bool Arena::make_room(EntryKind kind, std::int64_t count) {
  const SubPool& own = pool(kind);
  const SubPool& peer = pool(other(kind));
  const std::int64_t beyond = count - own.holes();
  if (beyond <= 0) return true;
  const std::int64_t left =
      geometry_.usable_bytes() - (own.frontier() + beyond) * geometry_.bytes_of(kind);
  if (left >= span_bytes(other(kind))) return true;
  if (left < 0) return false;
  const std::int64_t peer_frontier = left / geometry_.bytes_of(other(kind));
  if (peer_frontier < peer.least_frontier(peer.taken())) return false;
  compact(other(kind), peer_frontier);
  return true;
}

// Brings the frontier down to at most `frontier` with the fewest moves: one for each entry that
// lies beyond.
void Arena::compact(EntryKind kind, std::int64_t frontier) {
  SubPool& entries = pool(kind);
  const std::int64_t bytes = geometry_.bytes_of(kind);
  std::int64_t burst = 0;
  while (entries.frontier() > frontier) {
    const SubPool::Relocation moved = entries.move_last();
    moves_.push_back({.kind = kind,
                      .src_offset = geometry_.offset(kind, moved.from),
                      .dst_offset = geometry_.offset(kind, moved.to),
                      .bytes = bytes});
    ++counters_.moves;
    burst += bytes;
  }
  counters_.moved_bytes += burst;
  counters_.largest_burst_bytes = std::max(counters_.largest_burst_bytes, burst);
}

void Arena::compact_all() {
  compact(EntryKind::kState, states_.least_frontier(states_.taken()));
  compact(EntryKind::kPage, pages_.least_frontier(pages_.taken()));
}

void Arena::take_moves(std::vector<Move>& moves) {
  moves.clear();
  std::swap(moves, moves_);
}

// --- Owners -------------------------------------------------------------------------------------

void Arena::set_meta(std::uint32_t index, const StateMeta& meta) {
  --owned_[static_cast<std::size_t>(metas_[index].owner)];
  ++owned_[static_cast<std::size_t>(meta.owner)];
  metas_[index] = meta;
}

StateHandle Arena::allocate_state(const StateMeta& meta) {
  if (!make_room(EntryKind::kState, 1)) return {};
  const std::uint32_t index = states_.allocate();
  counters_.allocated_bytes += geometry_.state_bytes;
  set_meta(index, meta);
  return {this, {.index = index, .generation = states_.ids().generation(index)}};
}

StateHandle Arena::allocate_work(RequestId request) {
  return allocate_state({.owner = StateOwner::kWork, .request = request});
}

StateHandle Arena::allocate_ping(RequestId request, int ping) {
  CHECK(ping == 0 || ping == 1, "a request has snapshots 0 and 1, not {}", ping);
  return allocate_state({.owner = StateOwner::kPing, .ping = ping, .request = request});
}

PageHandle Arena::take_page() {
  const std::uint32_t index = pages_.allocate();
  counters_.allocated_bytes += geometry_.page_bytes;
  return {this, {.index = index, .generation = pages_.ids().generation(index)}};
}

PageHandle Arena::allocate_page() {
  if (!make_room(EntryKind::kPage, 1)) return {};
  return take_page();
}

bool Arena::allocate_pages(std::span<PageHandle> pages) {
  if (!make_room(EntryKind::kPage, static_cast<std::int64_t>(pages.size()))) return false;
  for (PageHandle& page : pages) {
    CHECK(!page, "a handle to fill owns page {}", page.id().index);
    page = take_page();
  }
  return true;
}

void Arena::donate(const StateHandle& state, NodeId node, std::int64_t depth_tokens) {
  const std::uint32_t index = checked(state.id());
  const StateOwner owner = metas_[index].owner;
  CHECK(owner == StateOwner::kWork || owner == StateOwner::kPing,
        "state {} of owner {} is no request's to donate", index, static_cast<int>(owner));
  set_meta(index, {.owner = StateOwner::kTree, .node = node, .depth_tokens = depth_tokens});
}

void Arena::count_freed(EntryKind kind, std::uint32_t index) {
  counters_.freed_bytes += geometry_.bytes_of(kind);
  if (kind == EntryKind::kState) set_meta(index, {});
}

void Arena::release(StateId id) {
  const std::uint32_t index = checked(id);
  if (states_.release(index)) {
    count_freed(EntryKind::kState, index);
  } else {
    set_meta(index, {.owner = StateOwner::kReader});
  }
}

void Arena::release(PageId id) {
  const std::uint32_t index = checked(id);
  if (pages_.release(index)) count_freed(EntryKind::kPage, index);
}

// --- Names and pins -----------------------------------------------------------------------------

std::uint32_t Arena::checked(StateId id) const {
  CHECK(states_.ids().names(id.index, id.generation), "state {} generation {} was given back",
        id.index, id.generation);
  return id.index;
}

std::uint32_t Arena::checked(PageId id) const {
  CHECK(pages_.ids().names(id.index, id.generation), "page {} generation {} was given back",
        id.index, id.generation);
  return id.index;
}

std::int64_t Arena::offset(EntryKind kind, std::uint32_t index) const {
  return geometry_.offset(kind, pool(kind).ids().position(index));
}

const StateMeta& Arena::meta(StateId id) const { return metas_[checked(id)]; }

ReaderPin Arena::pin(EntryKind kind, std::uint32_t index) {
  pool(kind).pin(index);
  return {this, kind, index};
}

void Arena::unpin(EntryKind kind, std::uint32_t index) {
  if (pool(kind).unpin(index)) count_freed(kind, index);
}

void Arena::keep_until(Fence fence, ReaderPin pin) {
  CHECK(static_cast<bool>(pin), "an empty pin has nothing to keep until fence {}", fence.value);
  fenced_.push_back({.fence = fence, .pin = std::move(pin)});
}

void Arena::pass(Fence fence) {
  std::erase_if(fenced_, [fence](const FencedPin& kept) { return kept.fence <= fence; });
}

template <EntryKind K>
void EntryHandle<K>::release() {
  std::exchange(arena_, nullptr)->release(std::exchange(id_, {}));
}
template class EntryHandle<EntryKind::kState>;
template class EntryHandle<EntryKind::kPage>;

void ReaderPin::release() { std::exchange(arena_, nullptr)->unpin(kind_, index_); }

std::int64_t ReaderPin::offset() const {
  CHECK(arena_ != nullptr, "an empty pin holds no bytes");
  return arena_->offset(kind_, index_);
}

// --- Reports ------------------------------------------------------------------------------------

ArenaUsage Arena::usage() const {
  ArenaUsage usage;
  usage.taken = {.states = states_.taken(), .pages = pages_.taken()};
  usage.holes = {.states = states_.holes(), .pages = pages_.holes()};
  usage.pinned = {.states = states_.pinned(), .pages = pages_.pinned()};
  usage.pending = {.states = states_.pending(), .pages = pages_.pending()};
  usage.states = owned_;
  usage.states[static_cast<std::size_t>(StateOwner::kNobody)] = 0;
  const auto bytes = [this](EntryCounts counts) {
    return counts.states * geometry_.state_bytes + counts.pages * geometry_.page_bytes;
  };
  usage.state_bytes = bytes({.states = usage.taken.states});
  usage.page_bytes = bytes({.pages = usage.taken.pages});
  usage.hole_bytes = bytes(usage.holes);
  usage.pinned_bytes = bytes(usage.pinned);
  usage.gap_bytes =
      geometry_.usable_bytes() - span_bytes(EntryKind::kState) - span_bytes(EntryKind::kPage);
  return usage;
}

Result<void> Arena::check_owners() const {
  std::array<std::int64_t, kStateOwners> owned{};
  for (std::uint32_t i = 0; i < metas_.size(); ++i) {
    const bool in_use = states_.ids().position(i) != IdTable::kNone;
    if (in_use != (metas_[i].owner != StateOwner::kNobody)) {
      return fail(StatusCode::kInternal, "state {} is {} and has owner {}", i,
                  in_use ? "in use" : "free", static_cast<int>(metas_[i].owner));
    }
    ++owned[static_cast<std::size_t>(metas_[i].owner)];
  }
  for (std::size_t i = 1; i < kStateOwners; ++i) {
    if (owned[i] != owned_[i]) {
      return fail(StatusCode::kInternal, "owner {} has {} states, not {}", i, owned[i], owned_[i]);
    }
  }
  if (owned[static_cast<std::size_t>(StateOwner::kReader)] != states_.pending()) {
    return fail(StatusCode::kInternal, "{} states are pending, not {}",
                owned[static_cast<std::size_t>(StateOwner::kReader)], states_.pending());
  }
  return {};
}

Result<void> Arena::integrity_check() const {
  TRY(states_.integrity_check());
  TRY(pages_.integrity_check());
  TRY(check_owners());
  const ArenaUsage now = usage();
  if (now.gap_bytes < 0) {
    return fail(StatusCode::kInternal, "states and pages overlap by {} bytes", -now.gap_bytes);
  }
  if (now.state_bytes + now.page_bytes != counters_.allocated_bytes - counters_.freed_bytes ||
      counters_.moved_bytes > counters_.freed_bytes) {
    return fail(StatusCode::kInternal, "{} bytes are in use: {} allocated, {} freed, {} moved",
                now.state_bytes + now.page_bytes, counters_.allocated_bytes, counters_.freed_bytes,
                counters_.moved_bytes);
  }
  return {};
}

}  // namespace tandem
