// Nodes in ascending order of (eviction value, id), any of which can be moved or taken out.
#pragma once

#include <cstddef>
#include <vector>

#include "memory/radix_node.h"

namespace tandem {

// A binary heap that tells each node its position. Keys are node.eviction.value, which only this
// class writes. Refers to nodes and owns none. Not thread-safe.
class EvictionHeap {
 public:
  bool empty() const { return nodes_.empty(); }
  std::size_t size() const { return nodes_.size(); }
  RadixNode& top() const { return *nodes_.front(); }
  bool contains(const RadixNode& node) const {
    return node.eviction.position != EvictionRecord::kNoPosition;
  }

  void insert(RadixNode& node, double value);
  // The node must be inside.
  void update(RadixNode& node, double value);
  void erase(RadixNode& node);

  const std::vector<RadixNode*>& nodes() const { return nodes_; }

 private:
  void place(RadixNode& node, std::size_t position);
  void sift(RadixNode& node);

  std::vector<RadixNode*> nodes_;
};

}  // namespace tandem
