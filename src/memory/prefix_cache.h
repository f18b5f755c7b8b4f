// The prefix cache: which prompts' states and rows are kept, shared and given up.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "memory/arena.h"
#include "memory/eviction_order.h"
#include "memory/namespace_key.h"
#include "memory/prefix_counters.h"
#include "memory/prefix_match.h"
#include "memory/radix_tree.h"

namespace tandem {

struct PrefixCacheOptions {
  std::int64_t page_tokens = 64;  // rows of one page of the arena
  std::int64_t grid_tokens = 64;  // states stand at multiples of it; a multiple of page_tokens
  // After a state enters, at most so many are kept on its path, forks and locked ones excepted.
  // 0: no cap.
  std::int64_t max_states_per_path = 0;
  PrefillCost prefill_cost = {};  // required
};

// How much a lock keeps.
enum class LockExtent : std::uint8_t {
  kUsable,  // rows up to the state: the request computes the gap into its own pages
  kRows,    // all matched rows: the request reads those of the gap while it replays
};

// A state to hand over. Of a request: working state or snapshot.
struct DonatedState {
  StateHandle state = {};
  std::int64_t depth_tokens = 0;  // the state after these; a multiple of the grid
  CheckpointReason reason = CheckpointReason::kTurn;
};

struct Donation {
  PrefixLock lock;  // of all rows donated
  // Rows before this depth were in the tree already: the caller's pages of them were given back,
  // and the tree's must be read from now on (pages_of). Not less than the old lock's depth.
  std::int64_t shared_tokens = 0;
};

// What one node looks like, for a debug endpoint.
struct PrefixNodeView {
  NodeId id;
  NodeId parent;  // 0 for a root
  std::int64_t end_tokens = 0;
  std::span<const TokenId> tokens = {};  // until the cache changes
  std::optional<StateId> state = {};
  bool is_tombstone = false;
  std::int64_t row_locks = 0;
  std::int64_t state_locks = 0;
  double value = 0;  // of a state that may be evicted
};

// A radix tree of prompts. MLA rows hang on its edges in whole pages, recurrent states on some of
// its nodes, and both are owned through handles: donating moves handles, never bytes.
//
//   match    asks, and changes nothing
//   acquire  locks what a match found, against eviction
//   donate   hands over a request's pages and snapshots, up to a page boundary
//   evict    gives entries back to the arena, least time saved per byte first
//
// A leaf without a state is worth nothing and exists only while it is locked. Depths are tokens
// from the start of the prompt.
//
// Single-threaded: owned by the planner thread. Decisions depend on the calls, the clock and the
// cost table only. Arena and clock must outlive it; it must outlive its locks.
class PrefixCache {
 public:
  // kInvalidArgument if grid and pages do not go together or a field is out of range.
  static Result<std::unique_ptr<PrefixCache>> create(Arena& arena, const Clock& clock,
                                                     PrefixCacheOptions options);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The longest cached prefix of the first `limit_tokens` of `tokens`. The limit of a prompt is one
  // less than its length, since one token must be computed for logits.
  PrefixMatch match(const NamespaceKey& name, std::span<const TokenId> tokens,
                    std::int64_t limit_tokens) const;

  // `match` must be the cache's last answer for this namespace: nothing may have changed since. To
  // let go of the lock again leaves no trace.
  [[nodiscard]] PrefixLock acquire(const NamespaceKey& name, const PrefixMatch& match,
                                   LockExtent extent = LockExtent::kUsable);
  // The request whose lock was the last to be acquired goes ahead with what `match` found: counts
  // the lookup, and a use of the state.
  void count_use(const PrefixMatch& match);

  // Hands over rows of [lock.tokens(), end), where end is the last page boundary in `tokens`, and
  // states at depths in (0, end]. `tokens` begin with those of the lock; one page handle each page.
  // Handles are moved from. What the tree has already is given back at once, so page tables of the
  // step being planned are made after this call. The lock's state, if any, stays locked.
  [[nodiscard]] Donation donate(PrefixLock lock, std::span<const TokenId> tokens,
                                std::span<PageHandle> pages, std::span<DonatedState> states = {});

  // Appends the pages of rows [from_tokens, lock.tokens()), where from_tokens is a page boundary.
  void pages_of(const PrefixLock& lock, std::int64_t from_tokens, std::vector<PageId>& pages) const;

  // What eviction can give back at most.
  EntryCounts evictable() const;
  // Whether evict_until(need) can succeed. Exact while no reader pins an entry of the tree.
  bool can_make_room(EntryCounts need) const {
    return arena_.can_allocate_after_freeing(need, evictable());
  }
  // Evicts until the arena can allocate `need`; false, with nothing evicted, where that is
  // impossible. (With reader pins it may fail after evicting.)
  bool evict_until(EntryCounts need);
  // Evicts the least valuable entry that no lock and no reader pin holds; false if there is none.
  bool evict_one();

  // Steps were measured; see EvictionOrder::learn. options().prefill_cost is `measured` afterwards.
  void learn_cost(PrefillCost measured);

  const PrefixCacheOptions& options() const { return options_; }
  const PrefixCounters& counters() const { return counters_; }
  PrefixUsage usage() const;

  std::vector<PrefixNodeView> dump() const;
  // Equal for caches that had the same calls at the same times. O(tokens cached).
  std::uint64_t digest() const;
  // kInternal with the first contradiction found. O(tokens cached): for idle engines and tests.
  Result<void> integrity_check() const;

 private:
  friend class PrefixLock;

  PrefixCache(Arena& arena, const Clock& clock, PrefixCacheOptions options);

  void add_row_lock(RadixNode& node);
  void drop_row_lock(RadixNode& node);
  void lock_state(RadixNode& node);
  void unlock_state(RadixNode& node);
  void release(PrefixLock& lock);

  struct Insertion {
    RadixNode* end;
    std::int64_t shared_tokens;
  };
  Insertion insert_rows(RadixNode& from, std::span<const TokenId> tokens,
                        std::span<PageHandle> pages);
  RadixNode& cut(RadixNode& node, std::int64_t depth_tokens);
  RadixNode& node_at(RadixNode& path_end, std::int64_t depth);
  void plant(RadixNode& path_end, DonatedState& checkpoint);
  void trim_path(RadixNode& tail);

  void evict(RadixNode& node, EvictionCause cause);
  void settle(RadixNode* node, EvictionCause cause);
  bool is_pinned(const RadixNode& node) const;
  Result<void> check_locks(const RadixNode& node) const;
  Result<void> check_state(const RadixNode& node) const;
  Result<void> check_totals() const;

  Arena& arena_;
  PrefixCacheOptions options_;  // but for the cost, as they were
  RadixTree tree_;
  EvictionOrder order_;
  PrefixUsage usage_;  // namespaces and nodes are the tree's
  PrefixCounters counters_;
  std::uint64_t version_ = 0;  // steps with every change
};

}  // namespace tandem
