// One edge of the prefix tree and the point at its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "memory/arena.h"
#include "memory/namespace_key.h"

namespace tandem {

// Why a checkpoint was planned; decides nothing once it is in the tree.
enum class CheckpointReason : std::uint8_t {
  kBranch,  // where prompts depart from each other
  kTurn,    // the end of a prompt or of a turn in it
  kGuard,   // one grid step before a prompt's end, for the same prompt again
  kChunk,   // spaced out over a long prompt
  kAnswer,  // the end of an answer, or where a request was retracted
};
constexpr std::size_t kCheckpointReasons = 5;

// What the eviction order knows of a node (eviction_order.h). Meaningful while it has a state.
struct EvictionRecord {
  static constexpr std::size_t kNoPosition = ~std::size_t{0};

  double frequency = 0;  // uses, halved with time
  double base = 0;       // the order's clock at the last use
  TimePoint used_at = {};
  double value = 0;  // its key in the heap: never above its present value
  std::size_t position = kNoPosition;
};

// `tokens` are those of the edge only: a whole number of pages, with one page of rows each. A state
// is the one after the node's last token. Rows and state live and die apart; a node whose state was
// evicted is a tombstone, which still shares its rows. Owned by RadixTree.
struct RadixNode {
  NodeId id;
  RadixNode* parent = nullptr;            // null: the root of a namespace, which has no tokens
  const NamespaceKey* name = nullptr;     // of a root
  std::vector<RadixNode*> children = {};  // ascending by first page; no two share it
  std::vector<TokenId> tokens = {};       // [end_tokens - tokens.size(), end_tokens) of a prompt
  std::vector<PageHandle> pages = {};     // of these tokens
  std::int64_t end_tokens = 0;            // depth of the end
  StateHandle state = {};                 // after end_tokens tokens, or empty
  CheckpointReason reason = {};           // of the state
  bool is_tombstone = false;              // the state was evicted
  std::int64_t uses = 0;                  // restores from the state
  std::int64_t row_locks = 0;             // locks that end here or further down
  std::int64_t state_locks = 0;           // locks on the state
  EvictionRecord eviction = {};
  std::size_t slot = 0;  // in the tree's list of nodes

  std::int64_t start_tokens() const {
    return end_tokens - static_cast<std::int64_t>(tokens.size());
  }
  std::int64_t page_count() const { return static_cast<std::int64_t>(pages.size()); }
};

}  // namespace tandem
