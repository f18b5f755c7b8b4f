// Which checkpoint to give up first: the one that saves the least time per byte.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>

#include "base/clock.h"
#include "memory/arena_geometry.h"
#include "memory/eviction_heap.h"

namespace tandem {

// Milliseconds to compute the first `depth_tokens` tokens of a prompt from nothing, as measured.
// Never falls with depth.
using PrefillCost = std::function<double(std::int64_t depth_tokens)>;

// One order for states and rows (greedy dual size frequency on time). A row is worth nothing
// without a state further down, and a state nothing without its rows; so what is ordered is states,
// each with the rows that would go with it:
//
//   value = base + frequency * (cost(depth) - cost(depth of the next state above)) / bytes freed
//
// `base` is the order's clock at the last use, and the clock is the highest value evicted so far:
// what is not used sinks, by comparison. Evicting a state raises the values of those below it, and
// this is found out only when they come to the top; whatever may lower a value must be told at
// once, by refresh(). Locked states are not inside.
//
// Refers to nodes and owns none. Not thread-safe.
class EvictionOrder {
 public:
  static constexpr std::chrono::minutes kFrequencyHalfLife{10};

  // `clock` must outlive the order.
  EvictionOrder(const ArenaGeometry& geometry, PrefillCost cost, const Clock& clock)
      : geometry_(geometry), cost_(std::move(cost)), clock_(clock) {}

  // A state enters the tree, for the first time or again.
  void start(RadixNode& node);
  // The state is used once more.
  void touch(RadixNode& node);

  void insert(RadixNode& node) { heap_.insert(node, value(node)); }
  void erase(RadixNode& node) { heap_.erase(node); }
  bool contains(const RadixNode& node) const { return heap_.contains(node); }
  // The value may have changed. A node that is not inside is left alone.
  void refresh(RadixNode& node);

  // The node of least value, null if there is none.
  RadixNode* least();
  // Raises the clock to the value of a node about to be evicted for room.
  void advance(const RadixNode& victim);

  // Steps were measured: from now on `measured` tells what depths cost, in proportion to each
  // other. As a whole it is scaled so that the first kScaleTokens keep their price, or values from
  // before and after could not be compared. O(n log n) for n states.
  void learn(PrefillCost measured);
  static constexpr std::int64_t kScaleTokens = 1024;

  // From scratch, whatever the heap holds.
  double value(const RadixNode& node) const;
  // What evicting the node's state gives back: the state, and if no lock and no other prompt needs
  // them the rows that lead to it.
  static EntryCounts freed_by(const RadixNode& node);

  double clock_value() const { return inflation_; }
  std::span<RadixNode* const> nodes() const { return heap_.nodes(); }

 private:
  const ArenaGeometry geometry_;
  PrefillCost cost_;
  const Clock& clock_;
  double inflation_ = 0;  // the order's clock
  EvictionHeap heap_;
};

// Depth of the next state above the node, 0 if there is none: from where its tokens would have to
// be computed again.
std::int64_t fallback_tokens(const RadixNode& node);

}  // namespace tandem
