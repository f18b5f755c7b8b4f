// What one running request holds of the arena, and how it passes to and from the prefix cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/arena.h"
#include "memory/prefix_cache.h"

namespace tandem {

// One working state; the pages of all rows, the first of them the tree's; and snapshots of the
// working state that were taken and not yet donated. At rest: the working state, and at most one
// snapshot.
//
// Content is a matter of the step plan: this class decides which entries are used, not what is in
// them. Arena and cache must outlive it. Move-only; owned by the planner thread.
class RequestMemory {
 public:
  RequestMemory(Arena& arena, PrefixCache& cache, RequestId request)
      : arena_(&arena), cache_(&cache), request_(request) {}

  // Locks what `match` found (the cache's last answer) and takes a working state, evicting what is
  // in the way. False, with nothing changed, unless `need` (working state included) could be
  // allocated together.
  [[nodiscard]] bool admit(const NamespaceKey& name, const PrefixMatch& match, EntryCounts need);
  // Gives everything back. Ready to be admitted again.
  void release();
  bool admitted() const { return static_cast<bool>(work_); }

  StateId work() const { return work_.id(); }

  // The checkpoint to fill the working state from, before the first row is computed. To be released
  // once the step that restores was planned to its end.
  bool has_checkpoint() const { return lock_.has_state(); }
  StateId checkpoint() const { return lock_.state(); }
  void release_checkpoint() { lock_.release_state(); }

  // Pages of rows [0, tokens), evicting what is in the way; false, with nothing changed, where that
  // is impossible.
  [[nodiscard]] bool grow(std::int64_t tokens);
  std::int64_t missing_pages(std::int64_t tokens) const;
  std::span<const PageId> pages() const { return pages_; }

  // A slot for the state after `depth_tokens`, which the coming step fills. False if there is no
  // room even after evicting: the request goes on without.
  [[nodiscard]] bool add_snapshot(std::int64_t depth_tokens, CheckpointReason reason);
  StateId last_snapshot() const { return snapshots_.back().state.id(); }
  std::int64_t snapshot_count() const { return static_cast<std::int64_t>(snapshots_.size()); }
  // Keeps of the snapshots at most `committed_tokens` deep only the deepest.
  void drop_older_snapshots(std::int64_t committed_tokens);
  void drop_snapshots() { snapshots_.clear(); }

  // Hands over the snapshots that are at most `committed_tokens` deep, with all rows before them.
  // `tokens` are the request's, at least as many. Page tables are to be made anew after it.
  void donate(std::span<const TokenId> tokens, std::int64_t committed_tokens);

  // What release() gives back at once; rows and states of the tree stay there.
  EntryCounts owned() const;

 private:
  struct Snapshot {
    StateHandle state;
    std::int64_t depth_tokens;
    CheckpointReason reason;
  };

  std::int64_t page_tokens() const { return cache_->options().page_tokens; }

  Arena* arena_;
  PrefixCache* cache_;
  RequestId request_;
  PrefixLock lock_;              // rows [0, lock_.tokens())
  std::vector<PageHandle> own_;  // rows from there on
  std::vector<PageId> pages_;    // of all rows
  StateHandle work_;
  std::vector<Snapshot> snapshots_;  // ascending by depth
};

}  // namespace tandem
