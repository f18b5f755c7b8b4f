#include "memory/eviction_order.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tandem {

std::int64_t fallback_tokens(const RadixNode& node) {
  const RadixNode* above = node.parent;
  while (above != nullptr && !above->state) above = above->parent;
  return above == nullptr ? 0 : above->end_tokens;
}

EntryCounts EvictionOrder::freed_by(const RadixNode& node) {
  EntryCounts freed{.states = 1};
  if (!node.children.empty() || node.row_locks != 0) return freed;
  freed.pages = node.page_count();
  for (const RadixNode* above = node.parent; !above->state && above->children.size() == 1 &&
                                             above->row_locks == 0 && above->parent != nullptr;
       above = above->parent) {
    freed.pages += above->page_count();
  }
  return freed;
}

double EvictionOrder::value(const RadixNode& node) const {
  const EntryCounts freed = freed_by(node);
  const auto bytes = static_cast<double>(freed.states * geometry_.state_bytes +
                                         freed.pages * geometry_.page_bytes);
  const double saved_ms = cost_(node.end_tokens) - cost_(fallback_tokens(node));
  return node.eviction.base + node.eviction.frequency * (saved_ms / bytes);
}

void EvictionOrder::learn(PrefillCost measured) {
  const double scale = cost_(kScaleTokens) / measured(kScaleTokens);
  cost_ = [measured = std::move(measured), scale](std::int64_t depth_tokens) {
    return scale * measured(depth_tokens);
  };
  const std::vector<RadixNode*> inside(heap_.nodes());
  for (RadixNode* node : inside) refresh(*node);
}

void EvictionOrder::start(RadixNode& node) {
  node.eviction.frequency = 1;
  node.eviction.base = inflation_;
  node.eviction.used_at = clock_.now();
}

void EvictionOrder::touch(RadixNode& node) {
  EvictionRecord& record = node.eviction;
  const TimePoint now = clock_.now();
  const double half_lives = milliseconds(record.used_at, now) /
                            std::chrono::duration<double, std::milli>(kFrequencyHalfLife).count();
  record.frequency = record.frequency * std::exp2(-half_lives) + 1;
  record.base = inflation_;
  record.used_at = now;
  refresh(node);
}

void EvictionOrder::refresh(RadixNode& node) {
  if (heap_.contains(node)) heap_.update(node, value(node));
}

// A key never exceeds its node's value; so once the top's key is exact, no other value is less.
RadixNode* EvictionOrder::least() {
  while (!heap_.empty()) {
    RadixNode& top = heap_.top();
    const double now = value(top);
    if (now == top.eviction.value) return &top;
    heap_.update(top, now);
  }
  return nullptr;
}

void EvictionOrder::advance(const RadixNode& victim) {
  inflation_ = std::max(inflation_, value(victim));
}

}  // namespace tandem
