// Looking at a prefix cache from outside: gauges, dump, digest and integrity check.
#include <algorithm>
#include <bit>

#include "memory/prefix_cache.h"

namespace tandem {
namespace {

constexpr auto kInternal = StatusCode::kInternal;

std::uint64_t mix(std::uint64_t digest, std::uint64_t value) {
  digest = (digest ^ value) * 0x9E3779B97F4A7C15;
  return digest ^ (digest >> 29);
}

std::uint64_t mix_node(std::uint64_t digest, const RadixNode& node) {
  digest = mix(digest, node.id.value);
  for (const TokenId token : node.tokens) digest = mix(digest, static_cast<std::uint32_t>(token));
  for (const PageHandle& page : node.pages) digest = mix(digest, page.id().index);
  digest = mix(digest, node.state ? node.state.id().index : ~std::uint64_t{0});
  digest = mix(digest, static_cast<std::uint64_t>(node.row_locks));
  digest = mix(digest, static_cast<std::uint64_t>(node.state_locks));
  digest = mix(digest, static_cast<std::uint64_t>(node.uses));
  digest = mix(digest, node.is_tombstone ? 1 : 0);
  digest = mix(digest, std::bit_cast<std::uint64_t>(node.eviction.frequency));
  return mix(digest, std::bit_cast<std::uint64_t>(node.eviction.base));
}

}  // namespace

PrefixUsage PrefixCache::usage() const {
  PrefixUsage usage = usage_;
  usage.namespaces = static_cast<std::int64_t>(tree_.namespaces());
  usage.nodes = static_cast<std::int64_t>(tree_.nodes().size());
  return usage;
}

std::vector<PrefixNodeView> PrefixCache::dump() const {
  std::vector<PrefixNodeView> views;
  for (const auto& node : tree_.nodes()) {
    views.push_back({.id = node->id,
                     .parent = node->parent == nullptr ? NodeId{} : node->parent->id,
                     .end_tokens = node->end_tokens,
                     .tokens = node->tokens,
                     .state = node->state ? std::optional(node->state.id()) : std::nullopt,
                     .is_tombstone = node->is_tombstone,
                     .row_locks = node->row_locks,
                     .state_locks = node->state_locks,
                     .value = order_.contains(*node) ? order_.value(*node) : 0});
  }
  return views;
}

std::uint64_t PrefixCache::digest() const {
  std::vector<const RadixNode*> stack;
  for (const auto& node : tree_.nodes()) {
    if (node->parent == nullptr) stack.push_back(node.get());
  }
  std::sort(stack.begin(), stack.end(),
            [](const RadixNode* a, const RadixNode* b) { return *a->name < *b->name; });
  std::uint64_t digest = std::bit_cast<std::uint64_t>(order_.clock_value());
  while (!stack.empty()) {
    const RadixNode& node = *stack.back();
    stack.pop_back();
    digest = mix_node(digest, node);
    stack.insert(stack.end(), node.children.begin(), node.children.end());
  }
  return digest;
}

Result<void> PrefixCache::check_locks(const RadixNode& node) const {
  std::int64_t below = 0;
  for (const RadixNode* child : node.children) below += child->row_locks;
  if (node.row_locks < below || node.row_locks < node.state_locks || node.state_locks < 0) {
    return fail(kInternal, "node {} has {} locks, {} of its state and {} further down",
                node.id.value, node.row_locks, node.state_locks, below);
  }
  if (node.state || node.row_locks > below) return {};
  const bool is_idle_cut =
      node.parent != nullptr && node.children.size() == 1 && !node.is_tombstone;
  if (node.children.empty() || is_idle_cut) {
    return fail(kInternal, "node {} has no state, no lock and {} children", node.id.value,
                node.children.size());
  }
  return {};
}

Result<void> PrefixCache::check_state(const RadixNode& node) const {
  const bool may_be_evicted = node.state && node.state_locks == 0;
  if (order_.contains(node) != may_be_evicted) {
    return fail(kInternal, "node {} {} be evicted", node.id.value,
                may_be_evicted ? "should" : "should not");
  }
  if (may_be_evicted && node.eviction.value > order_.value(node)) {
    return fail(kInternal, "node {} is worth {}, less than {}", node.id.value, order_.value(node),
                node.eviction.value);
  }
  if (!node.state) {
    if (node.state_locks == 0) return {};
    return fail(kInternal, "node {} has {} locks of no state", node.id.value, node.state_locks);
  }
  const StateMeta& meta = arena_.meta(node.state.id());
  if (node.parent == nullptr || node.is_tombstone || node.end_tokens % options_.grid_tokens != 0 ||
      meta.owner != StateOwner::kTree || meta.node != node.id ||
      meta.depth_tokens != node.end_tokens) {
    return fail(kInternal, "the state of node {} at {} is of node {} at {}", node.id.value,
                node.end_tokens, meta.node.value, meta.depth_tokens);
  }
  return {};
}

Result<void> PrefixCache::check_totals() const {
  PrefixUsage sum;
  sum.namespaces = static_cast<std::int64_t>(tree_.namespaces());
  sum.nodes = static_cast<std::int64_t>(tree_.nodes().size());
  for (const auto& node : tree_.nodes()) {
    if (node->parent == nullptr) sum.locks += node->row_locks;
    sum.states += node->state ? 1 : 0;
    sum.pages += node->page_count();
    sum.locked_states += node->state_locks > 0 ? 1 : 0;
    sum.locked_pages += node->row_locks > 0 ? node->page_count() : 0;
    sum.tombstones += node->is_tombstone ? 1 : 0;
    sum.stranded_pages += node->is_tombstone ? node->page_count() : 0;
  }
  if (sum == usage()) return {};
  return fail(kInternal,
              "counted {} locks, {} states ({} locked), {} pages ({} locked), {} tombstones ({} "
              "pages); kept {}, {} ({}), {} ({}), {} ({})",
              sum.locks, sum.states, sum.locked_states, sum.pages, sum.locked_pages, sum.tombstones,
              sum.stranded_pages, usage_.locks, usage_.states, usage_.locked_states, usage_.pages,
              usage_.locked_pages, usage_.tombstones, usage_.stranded_pages);
}

Result<void> PrefixCache::integrity_check() const {
  TRY(tree_.integrity_check());
  std::int64_t tree_states = 0;
  for (const auto& node : tree_.nodes()) {
    TRY(check_locks(*node));
    TRY(check_state(*node));
    tree_states += node->state ? 1 : 0;
  }
  TRY(check_totals());
  if (const auto owned = arena_.usage().states[static_cast<std::size_t>(StateOwner::kTree)];
      owned != tree_states) {
    return fail(kInternal, "the tree holds {} states, the arena lent it {}", tree_states, owned);
  }
  const std::span<RadixNode* const> order = order_.nodes();
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i]->eviction.position != i ||
        order[i == 0 ? 0 : (i - 1) / 2]->eviction.value > order[i]->eviction.value) {
      return fail(kInternal, "node {} is out of order", order[i]->id.value);
    }
  }
  return {};
}

}  // namespace tandem
