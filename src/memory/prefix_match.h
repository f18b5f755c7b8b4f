// What the prefix cache knows of a prompt, and the lock that keeps it.
#pragma once

#include <cstdint>
#include <utility>

#include "memory/handles.h"
#include "memory/radix_tree.h"

namespace tandem {

class PrefixCache;

// Why tokens whose rows are cached must be computed again.
enum class ReplayCause : std::uint8_t {
  kNone,     // nothing to replay
  kEvicted,  // a state further down was evicted
  kBranch,   // prompts depart here for the first time, inside text that has no state
  kGrid,     // less than a grid step
};
constexpr std::size_t kReplayCauses = 4;

// A value; what it says of the tree holds until the cache changes. All depths count from token 0.
struct PrefixMatch {
  std::int64_t usable_tokens = 0;  // there is a state after these, and rows of them: start here
  std::int64_t row_tokens = 0;     // rows are cached of these: whole pages, >= usable_tokens
  std::int64_t text_tokens = 0;    // the first token that differs, where end is kTextDiffers
  // Where to plant a state while replaying [usable_tokens, row_tokens): the last grid point at
  // which prompts still agree. 0: there is none.
  std::int64_t branch_tokens = 0;
  MatchEnd end = MatchEnd::kCacheEnds;
  ReplayCause replay = ReplayCause::kNone;

  std::int64_t replay_tokens() const { return row_tokens - usable_tokens; }

 private:
  friend class PrefixCache;
  RadixNode* row_node_ = nullptr;    // holds row_tokens, maybe inside its edge; null: no root
  RadixNode* state_node_ = nullptr;  // ends at usable_tokens; null: 0
  std::uint64_t version_ = 0;
};

// Keeps rows [0, tokens()) and at most one state in the cache until it is reset or dies; locks are
// released in any order. A lock of 0 tokens holds a place in its namespace. Move-only. Must not
// outlive the cache; owned by the planner thread.
class PrefixLock {
 public:
  PrefixLock() = default;
  PrefixLock(PrefixLock&& other) noexcept
      : cache_(std::exchange(other.cache_, nullptr)),
        node_(std::exchange(other.node_, nullptr)),
        state_node_(std::exchange(other.state_node_, nullptr)) {}
  PrefixLock& operator=(PrefixLock&& other) noexcept {
    if (this != &other) {
      reset();
      cache_ = std::exchange(other.cache_, nullptr);
      node_ = std::exchange(other.node_, nullptr);
      state_node_ = std::exchange(other.state_node_, nullptr);
    }
    return *this;
  }
  ~PrefixLock() { reset(); }

  explicit operator bool() const { return cache_ != nullptr; }

  std::int64_t tokens() const { return node_ == nullptr ? 0 : node_->end_tokens; }

  // The state to restore from, after state_tokens() tokens. Restore a copy: it belongs to the tree.
  bool has_state() const { return state_node_ != nullptr; }
  std::int64_t state_tokens() const { return has_state() ? state_node_->end_tokens : 0; }
  StateId state() const;
  // To be called once the step that restores was planned to its end: the state may then be evicted,
  // whereas the rows stay.
  void release_state();

  void reset();

 private:
  friend class PrefixCache;
  PrefixLock(PrefixCache* cache, RadixNode* node, RadixNode* state_node)
      : cache_(cache), node_(node), state_node_(state_node) {}

  PrefixCache* cache_ = nullptr;
  RadixNode* node_ = nullptr;        // ends at tokens()
  RadixNode* state_node_ = nullptr;  // `node_` or above
};

}  // namespace tandem
