#include "memory/eviction_heap.h"

#include "base/check.h"

namespace tandem {
namespace {

// The id breaks ties, so that the order depends on nothing but the history of calls.
bool before(const RadixNode& a, const RadixNode& b) {
  if (a.eviction.value != b.eviction.value) return a.eviction.value < b.eviction.value;
  return a.id < b.id;
}

}  // namespace

void EvictionHeap::place(RadixNode& node, std::size_t position) {
  nodes_[position] = &node;
  node.eviction.position = position;
}

// Moves the node up or down from its position to where it belongs.
void EvictionHeap::sift(RadixNode& node) {
  std::size_t at = node.eviction.position;
  while (at > 0 && before(node, *nodes_[(at - 1) / 2])) {
    place(*nodes_[(at - 1) / 2], at);
    at = (at - 1) / 2;
  }
  for (std::size_t child = 2 * at + 1; child < nodes_.size(); child = 2 * at + 1) {
    if (child + 1 < nodes_.size() && before(*nodes_[child + 1], *nodes_[child])) ++child;
    if (!before(*nodes_[child], node)) break;
    place(*nodes_[child], at);
    at = child;
  }
  place(node, at);
}

void EvictionHeap::insert(RadixNode& node, double value) {
  CHECK(!contains(node), "node {} is in the heap", node.id.value);
  nodes_.push_back(&node);
  node.eviction.position = nodes_.size() - 1;
  node.eviction.value = value;
  sift(node);
}

void EvictionHeap::update(RadixNode& node, double value) {
  CHECK(contains(node), "node {} is not in the heap", node.id.value);
  node.eviction.value = value;
  sift(node);
}

void EvictionHeap::erase(RadixNode& node) {
  CHECK(contains(node), "node {} is not in the heap", node.id.value);
  RadixNode& last = *nodes_.back();
  const std::size_t hole = node.eviction.position;
  nodes_.pop_back();
  node.eviction.position = EvictionRecord::kNoPosition;
  if (&last == &node) return;
  place(last, hole);
  sift(last);
}

}  // namespace tandem
