// How rows and states come into the prefix cache, and how they leave it.
#include <algorithm>
#include <bit>

#include "base/check.h"
#include "memory/prefix_cache.h"

namespace tandem {
namespace {

using Tokens = std::span<const TokenId>;

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

[[maybe_unused]] bool leads_to(const RadixNode& node, Tokens tokens) {
  for (const RadixNode* up = &node; up->parent != nullptr; up = up->parent) {
    const Tokens part = tokens.subspan(index(up->start_tokens()), up->tokens.size());
    if (!std::equal(part.begin(), part.end(), up->tokens.begin())) return false;
  }
  return true;
}

// The leaf whose rows would go together with the edge that ends at `node`, or some node that has
// other prompts or a state below.
RadixNode& end_of_chain(RadixNode& node) {
  RadixNode* at = &node;
  while (!at->state && at->children.size() == 1) at = at->children.front();
  return *at;
}

// Whether prompts depart from each other behind the node and before the next state.
bool guards_fork(const RadixNode& node) {
  const RadixNode* at = &node;
  do {
    if (at->children.size() != 1) return at->children.size() > 1;
    at = at->children.front();
  } while (!at->state);
  return false;
}

// The end of a single lock and of nothing else: a prompt that is being computed.
bool is_open_end(const RadixNode& node) {
  return node.parent != nullptr && !node.state && !node.is_tombstone && node.children.empty() &&
         node.row_locks == 1;
}

// Made only to part two prompts, or to end a lock, and needed for neither any more.
bool is_idle_cut(const RadixNode& node) {
  return node.parent != nullptr && !node.state && !node.is_tombstone && node.children.size() == 1 &&
         node.row_locks == node.children.front()->row_locks;
}

std::int64_t count_path_states(const RadixNode& node) {
  std::int64_t states = 0;
  for (const RadixNode* up = &node; up != nullptr; up = up->parent) states += up->state ? 1 : 0;
  return states;
}

}  // namespace

// --- In -----------------------------------------------------------------------------------------

Donation PrefixCache::donate(PrefixLock lock, Tokens tokens, std::span<PageHandle> pages,
                             std::span<DonatedState> states) {
  CHECK(lock.cache_ == this, "a donation needs a lock of this cache");
  const Tokens whole =
      tokens.first(index(tree_.whole_pages(static_cast<std::int64_t>(tokens.size()))));
  RadixNode& from = *lock.node_;
  CHECK(whole.size() == index(from.end_tokens) + pages.size() * index(options_.page_tokens),
        "{} pages from depth {} do not hold {} tokens", pages.size(), from.end_tokens,
        whole.size());
  DCHECK(leads_to(from, whole), "the tokens donated are not those of the lock");
  ++version_;
  const Insertion inserted = insert_rows(from, whole, pages);
  for (RadixNode* up = inserted.end; up != &from; up = up->parent) add_row_lock(*up);
  lock.node_ = inserted.end;
  // From the end, which is the cheap way to cut one long edge into many (RadixTree::split).
  for (auto at = states.rbegin(); at != states.rend(); ++at) {
    node_at(*inserted.end, at->depth_tokens);
  }
  for (DonatedState& checkpoint : states) plant(*inserted.end, checkpoint);
  settle(&from, EvictionCause::kUseless);  // no lock ends there any more
  return {.lock = std::move(lock), .shared_tokens = inserted.shared_tokens};
}

// Follows the tokens as far as they are in the tree, giving back the caller's pages of them, and
// hangs up the rest as a leaf.
PrefixCache::Insertion PrefixCache::insert_rows(RadixNode& from, Tokens tokens,
                                                std::span<PageHandle> pages) {
  const auto end = static_cast<std::int64_t>(tokens.size());
  const RadixWalk walk = tree_.walk(from, tokens, end);
  const auto shared = index((walk.row_tokens - from.end_tokens) / options_.page_tokens);
  for (PageHandle& page : pages.first(shared)) page.reset();
  counters_.duplicate_pages += static_cast<std::int64_t>(shared);
  RadixNode* node = walk.node;
  if (walk.row_tokens < node->end_tokens) node = &cut(*node, walk.row_tokens);
  if (walk.row_tokens < end) {
    const Tokens rest = tokens.subspan(index(walk.row_tokens));
    usage_.pages += static_cast<std::int64_t>(pages.size() - shared);
    if (node == &from && is_open_end(from)) {
      tree_.extend(from, rest, pages);
      usage_.locked_pages += static_cast<std::int64_t>(pages.size());
    } else {
      node = &tree_.append(*node, rest, pages.subspan(shared));
    }
  }
  return {.end = node, .shared_tokens = walk.row_tokens};
}

RadixNode& PrefixCache::cut(RadixNode& node, std::int64_t depth_tokens) {
  RadixNode& upper = tree_.split(node, depth_tokens);
  if (node.is_tombstone) usage_.stranded_pages -= upper.page_count();
  return upper;
}

// The node on the path to `path_end` that ends at a depth where a state may stand.
RadixNode& PrefixCache::node_at(RadixNode& path_end, std::int64_t depth) {
  CHECK(depth > 0 && depth <= path_end.end_tokens && depth % options_.grid_tokens == 0,
        "a state at {} is off the grid of {} or behind the rows, {}", depth, options_.grid_tokens,
        path_end.end_tokens);
  RadixNode* node = &path_end;
  while (node->start_tokens() >= depth) node = node->parent;
  return depth < node->end_tokens ? cut(*node, depth) : *node;
}

void PrefixCache::plant(RadixNode& path_end, DonatedState& checkpoint) {
  const std::int64_t depth = checkpoint.depth_tokens;
  RadixNode* node = &node_at(path_end, depth);
  if (node->state) {
    checkpoint.state.reset();
    ++counters_.duplicate_states;
    return;
  }
  arena_.donate(checkpoint.state, node->id, depth);
  node->state = std::move(checkpoint.state);
  node->reason = checkpoint.reason;
  node->uses = 0;
  if (node->is_tombstone) {
    node->is_tombstone = false;
    --usage_.tombstones;
    usage_.stranded_pages -= node->page_count();
  }
  ++usage_.states;
  order_.start(*node);
  order_.insert(*node);
  // For the next states below, the way back has become shorter.
  std::vector<RadixNode*> below = node->children;
  while (!below.empty()) {
    RadixNode* next = below.back();
    below.pop_back();
    if (next->state) {
      order_.refresh(*next);
    } else {
      below.insert(below.end(), next->children.begin(), next->children.end());
    }
  }
  ++counters_.planted[static_cast<std::size_t>(node->reason)];
  const auto octave = static_cast<std::size_t>(
      std::bit_width(static_cast<std::uint64_t>(count_path_states(*node))) - 1);
  ++counters_.path_states[std::min(octave, counters_.path_states.size() - 1)];
  trim_path(*node);
}

// Gives up the shallowest states first: the deep ones serve the path's own next turn.
void PrefixCache::trim_path(RadixNode& tail) {
  if (options_.max_states_per_path == 0) return;
  std::int64_t excess = count_path_states(tail) - options_.max_states_per_path;
  if (excess <= 0) return;
  std::vector<RadixNode*> path;
  for (RadixNode* up = tail.parent; up != nullptr; up = up->parent) path.push_back(up);
  for (auto at = path.rbegin(); at != path.rend() && excess > 0; ++at) {
    RadixNode& node = **at;
    if (!node.state || node.state_locks != 0 || guards_fork(node)) continue;
    evict(node, EvictionCause::kPathCap);
    --excess;
  }
}

// --- Out ----------------------------------------------------------------------------------------

void PrefixCache::evict(RadixNode& node, EvictionCause cause) {
  ++version_;
  order_.erase(node);
  node.state.reset();
  node.is_tombstone = true;
  --usage_.states;
  ++usage_.tombstones;
  usage_.stranded_pages += node.page_count();
  ++counters_.evicted_states[static_cast<std::size_t>(cause)];
  if (node.uses == 0) ++counters_.evicted_unused;
  settle(&node, cause);
}

// To be called where a node lost its state, a child or a lock: gives up rows that lead to no state
// and that nobody holds, joins what need not be apart, and tells the eviction order.
void PrefixCache::settle(RadixNode* node, EvictionCause cause) {
  while (node->children.empty() && node->row_locks == 0 && !node->state) {
    RadixNode* parent = node->parent;
    usage_.pages -= node->page_count();
    counters_.evicted_pages[static_cast<std::size_t>(cause)] += node->page_count();
    if (node->is_tombstone) {
      --usage_.tombstones;
      usage_.stranded_pages -= node->page_count();
    }
    tree_.remove(*node);
    if (parent == nullptr) return;
    node = parent;
  }
  if (is_idle_cut(*node)) {
    const std::int64_t pages = node->page_count();
    node = &tree_.join(*node);
    if (node->is_tombstone) usage_.stranded_pages += pages;
  }
  order_.refresh(end_of_chain(*node));
}

}  // namespace tandem
