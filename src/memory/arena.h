// The one memory budget of an engine: recurrent states and pages of latent rows in one buffer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "memory/arena_geometry.h"
#include "memory/handles.h"
#include "memory/sub_pool.h"

namespace tandem {

using NodeId = Id<struct TreeNodeTag>;  // a node of the prefix tree
using Fence = Id<struct FenceTag>;      // a point of the caller's order of events

// Who a state slot belongs to. Every slot in use has exactly one owner.
enum class StateOwner : std::uint8_t {
  kNobody,  // free
  kWork,    // a request's working state, advanced in place by every step
  kPing,    // a request's snapshot, one of two that alternate
  kTree,    // a checkpoint of the prefix tree
  kReader,  // given up, kept by reader pins
};
constexpr std::size_t kStateOwners = 5;

struct StateMeta {
  StateOwner owner = StateOwner::kNobody;
  int ping = 0;                   // which of the two snapshots
  RequestId request = {};         // of kWork and kPing
  NodeId node = {};               // of kTree
  std::int64_t depth_tokens = 0;  // of kTree: the state after this many tokens
};

// A copy of `bytes` bytes within the buffer; the two ranges do not overlap.
struct Move {
  EntryKind kind = EntryKind::kState;
  std::int64_t src_offset = 0;
  std::int64_t dst_offset = 0;
  std::int64_t bytes = 0;

  bool operator==(const Move&) const = default;
};

// The whole buffer: sink + states + pages + holes + gap. Pinned bytes are part of states and pages.
struct ArenaUsage {
  EntryCounts taken;                                // owned, or kept by pins only
  EntryCounts holes;                                // free, enclosed by entries of their kind
  EntryCounts pinned;                               // taken, with at least one pin
  EntryCounts pending;                              // taken, without owner
  std::array<std::int64_t, kStateOwners> states{};  // by StateOwner; kNobody is always 0
  std::int64_t state_bytes = 0;
  std::int64_t page_bytes = 0;
  std::int64_t hole_bytes = 0;
  std::int64_t gap_bytes = 0;
  std::int64_t pinned_bytes = 0;

  bool operator==(const ArenaUsage&) const = default;
};

// Since the arena was made.
struct ArenaCounters {
  std::int64_t allocated_bytes = 0;
  std::int64_t freed_bytes = 0;
  std::int64_t moves = 0;
  std::int64_t moved_bytes = 0;          // never more than freed_bytes
  std::int64_t largest_burst_bytes = 0;  // moved by one call
};

// Hands out byte ranges of one buffer; never touches the bytes and knows no pointer.
//
// States grow from the low end, pages from the high end, and the gap between belongs to whoever
// asks first. An entry given back inside its end leaves a hole, which its own kind reuses for
// nothing. Only when the *other* kind needs more than the gap are the entries next to the gap moved
// into the deepest holes. So an allocation fails exactly when can_allocate is false: there is no
// fragmentation to fail of.
//
// Order. Moves are planned here and executed by the caller, all in order and on the forward stream,
// before anything else of the step being planned. Hence:
//  - resolve offsets of a step after the step's last allocation, when take_moves is called;
//  - an entry that the step still reads (a checkpoint to restore from) is given back only after the
//    step was planned to its end, or a move might overwrite it first;
//  - apart from that an entry given back is reusable at once. Readers on other streams hold pins.
// A new entry holds arbitrary bytes: clear or fill it before the first read.
//
// Scattered states (in ordinary pages) could replace this class behind the same names, handles and
// predicate: there would be no moves, and offset(StateId) would become a list.
//
// Single-threaded: owned by the planner thread, as are handles and pins, which it must outlive. No
// call allocates memory once its vectors have grown, except integrity_check.
class Arena {
 public:
  // The errors of ArenaGeometry::check.
  static Result<std::unique_ptr<Arena>> create(const ArenaGeometry& geometry);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  const ArenaGeometry& geometry() const { return geometry_; }

  // The one test for admission, eviction and retraction: whether all of `need` can be allocated
  // now, in any order. Exact, pins included.
  bool can_allocate(EntryCounts need) const { return can_allocate_after_freeing(need, {}); }
  // The same, once `freed` entries without pins have been given back.
  bool can_allocate_after_freeing(EntryCounts need, EntryCounts freed) const;
  // How many entries of one kind can be allocated if none of the other is.
  std::int64_t headroom(EntryKind kind) const;

  // Each is empty (or false) where can_allocate is false; then nothing has changed.
  [[nodiscard]] StateHandle allocate_work(RequestId request);
  [[nodiscard]] StateHandle allocate_ping(RequestId request, int ping);  // ping: 0 or 1
  [[nodiscard]] PageHandle allocate_page();
  // Fills every handle of `pages`, which must be empty, or none.
  [[nodiscard]] bool allocate_pages(std::span<PageHandle> pages);

  // A request's working state or snapshot becomes the tree's checkpoint after `depth_tokens`
  // tokens. Only the tag changes; the caller hands the handle over, too.
  void donate(const StateHandle& state, NodeId node, std::int64_t depth_tokens);

  const StateMeta& meta(StateId id) const;

  // Where the entry lies, in bytes from the start of the buffer; until the next move.
  std::int64_t offset(StateId id) const { return offset(EntryKind::kState, checked(id)); }
  std::int64_t offset(PageId id) const { return offset(EntryKind::kPage, checked(id)); }
  bool is_pinned(StateId id) const { return states_.is_pinned(checked(id)); }
  bool is_pinned(PageId id) const { return pages_.is_pinned(checked(id)); }

  [[nodiscard]] ReaderPin pin(StateId id) { return pin(EntryKind::kState, checked(id)); }
  [[nodiscard]] ReaderPin pin(PageId id) { return pin(EntryKind::kPage, checked(id)); }
  // Keeps `pin` until pass() is called with this fence or a later one. Pins may share a fence.
  void keep_until(Fence fence, ReaderPin pin);
  void pass(Fence fence);

  // The moves planned since the last call, to be executed in this order. Clears `moves` first.
  void take_moves(std::vector<Move>& moves);
  // Closes all holes that pins allow, which puts all free bytes into the gap. Never needed for an
  // allocation.
  void compact_all();

  ArenaUsage usage() const;
  const ArenaCounters& counters() const { return counters_; }

  // kInternal with the first contradiction found between the tables. O(capacity): for idle engines
  // and tests.
  Result<void> integrity_check() const;

 private:
  template <EntryKind K>
  friend class EntryHandle;
  friend class ReaderPin;

  struct FencedPin {
    Fence fence;
    ReaderPin pin;
  };

  explicit Arena(const ArenaGeometry& geometry);

  SubPool& pool(EntryKind kind) { return kind == EntryKind::kState ? states_ : pages_; }
  const SubPool& pool(EntryKind kind) const { return kind == EntryKind::kState ? states_ : pages_; }
  std::uint32_t checked(StateId id) const;
  std::uint32_t checked(PageId id) const;
  std::int64_t offset(EntryKind kind, std::uint32_t index) const;
  std::int64_t span_bytes(EntryKind kind) const;

  bool make_room(EntryKind kind, std::int64_t count);
  void compact(EntryKind kind, std::int64_t frontier);
  StateHandle allocate_state(const StateMeta& meta);
  PageHandle take_page();
  void set_meta(std::uint32_t index, const StateMeta& meta);
  void count_freed(EntryKind kind, std::uint32_t index);
  Result<void> check_owners() const;

  void release(StateId id);
  void release(PageId id);
  ReaderPin pin(EntryKind kind, std::uint32_t index);
  void unpin(EntryKind kind, std::uint32_t index);

  const ArenaGeometry geometry_;
  SubPool states_;
  SubPool pages_;
  std::vector<StateMeta> metas_;  // by name
  std::array<std::int64_t, kStateOwners> owned_{};
  std::vector<Move> moves_;
  std::vector<FencedPin> fenced_;
  ArenaCounters counters_;
};

}  // namespace tandem
