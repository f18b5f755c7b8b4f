#include "memory/radix_tree.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

using Tokens = std::span<const TokenId>;

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

// memcmp block by block runs at memory speed, which a loop that leaves at a difference does not.
std::int64_t common_tokens(Tokens a, Tokens b) {
  constexpr std::size_t kBlock = 512;
  const std::size_t count = std::min(a.size(), b.size());
  std::size_t at = 0;
  while (at + kBlock <= count && std::memcmp(&a[at], &b[at], kBlock * sizeof(TokenId)) == 0) {
    at += kBlock;
  }
  while (at < count && a[at] == b[at]) ++at;
  return static_cast<std::int64_t>(at);
}

// Where a child that begins with `tokens` (or with a page that they begin) stands or would stand.
auto position_of(const std::vector<RadixNode*>& children, Tokens tokens, std::size_t page) {
  const Tokens first = tokens.first(std::min(page, tokens.size()));
  return std::lower_bound(
      children.begin(), children.end(), first, [page](const RadixNode* child, Tokens wanted) {
        const Tokens own = Tokens(child->tokens).first(page);
        return std::lexicographical_compare(own.begin(), own.end(), wanted.begin(), wanted.end());
      });
}

// Moves the first `count` elements of `all` to `front`, which is empty. Only the shorter part is
// copied: a long edge that is cut from its end, again and again, costs no more than its length.
template <typename T>
void split_vector(std::vector<T>& all, std::vector<T>& front, std::size_t count) {
  const auto cut = all.begin() + static_cast<std::ptrdiff_t>(count);
  if (count <= all.size() - count) {
    front.assign(std::move_iterator(all.begin()), std::move_iterator(cut));
    all.erase(all.begin(), cut);
    return;
  }
  std::vector<T> back;
  back.assign(std::move_iterator(cut), std::move_iterator(all.end()));
  all.erase(cut, all.end());
  if (all.capacity() > 2 * all.size()) all.shrink_to_fit();
  front = std::exchange(all, std::move(back));
}

void replace_child(RadixNode& parent, const RadixNode& old, RadixNode& now) {
  const auto at = std::find(parent.children.begin(), parent.children.end(), &old);
  CHECK(at != parent.children.end(), "node {} is no child of node {}", old.id.value,
        parent.id.value);
  *at = &now;
  now.parent = &parent;
}

}  // namespace

// --- Nodes --------------------------------------------------------------------------------------

RadixNode& RadixTree::make_node() {
  nodes_.push_back(std::make_unique<RadixNode>());
  RadixNode& node = *nodes_.back();
  node.id = NodeId{next_id_++};
  node.slot = nodes_.size() - 1;
  return node;
}

void RadixTree::destroy(RadixNode& node) {
  const std::size_t slot = node.slot;
  std::swap(nodes_[slot], nodes_.back());
  nodes_[slot]->slot = slot;
  nodes_.pop_back();
}

RadixNode* RadixTree::find_root(const NamespaceKey& name) const {
  const auto at = roots_.find(name);
  return at == roots_.end() ? nullptr : at->second;
}

RadixNode& RadixTree::root(const NamespaceKey& name) {
  const auto [at, is_new] = roots_.try_emplace(name, nullptr);
  if (is_new) {
    at->second = &make_node();
    at->second->name = &at->first;
  }
  return *at->second;
}

// --- Walking ------------------------------------------------------------------------------------

// Of sorted children, one of the two next to where `tokens` would stand shares most with them.
RadixTree::ChildMatch RadixTree::best_child(const RadixNode& node, Tokens tokens) const {
  ChildMatch best;
  if (node.children.empty()) return best;
  auto after = node.children.begin();
  if (node.children.size() > 1) after = position_of(node.children, tokens, index(page_tokens_));
  const auto consider = [&](RadixNode* child) {
    const std::int64_t common = common_tokens(child->tokens, tokens);
    if (best.child == nullptr || common > best.tokens) best = {.child = child, .tokens = common};
  };
  if (after != node.children.end()) consider(*after);
  if (best.tokens < page_tokens_ && after != node.children.begin()) consider(*std::prev(after));
  return best;
}

RadixWalk RadixTree::walk(RadixNode& from, Tokens tokens, std::int64_t limit_tokens) const {
  const std::int64_t limit = std::min(limit_tokens, static_cast<std::int64_t>(tokens.size()));
  RadixWalk at{.node = &from, .row_tokens = from.end_tokens, .text_tokens = from.end_tokens};
  while (at.text_tokens < limit) {
    const Tokens rest = tokens.subspan(index(at.text_tokens), index(limit - at.text_tokens));
    const ChildMatch next = best_child(*at.node, rest);
    if (next.child == nullptr) return at;
    at.text_tokens += next.tokens;
    if (next.tokens >= page_tokens_) {
      at.node = next.child;
      at.row_tokens = whole_pages(at.text_tokens);
    }
    if (next.tokens < static_cast<std::int64_t>(next.child->tokens.size())) {
      at.end = at.text_tokens < limit ? MatchEnd::kTextDiffers : MatchEnd::kPromptEnds;
      return at;
    }
  }
  at.end = MatchEnd::kPromptEnds;
  return at;
}

// --- Changing -----------------------------------------------------------------------------------

RadixNode& RadixTree::split(RadixNode& node, std::int64_t depth_tokens) {
  CHECK(depth_tokens > node.start_tokens() && depth_tokens < node.end_tokens &&
            depth_tokens % page_tokens_ == 0,
        "depth {} is no page boundary inside the edge ({}, {})", depth_tokens, node.start_tokens(),
        node.end_tokens);
  const std::int64_t cut = depth_tokens - node.start_tokens();
  RadixNode& upper = make_node();
  split_vector(node.tokens, upper.tokens, index(cut));
  split_vector(node.pages, upper.pages, index(cut / page_tokens_));
  upper.end_tokens = depth_tokens;
  upper.row_locks = node.row_locks;
  replace_child(*node.parent, node, upper);
  upper.children.push_back(&node);
  node.parent = &upper;
  return upper;
}

RadixNode& RadixTree::append(RadixNode& parent, Tokens tokens, std::span<PageHandle> pages) {
  const auto at = position_of(parent.children, tokens, index(page_tokens_));
  CHECK(at == parent.children.end() || common_tokens((*at)->tokens, tokens) < page_tokens_,
        "node {} has a child that begins with this page", parent.id.value);
  RadixNode& leaf = make_node();
  leaf.parent = &parent;
  leaf.end_tokens = parent.end_tokens;
  extend(leaf, tokens, pages);
  parent.children.insert(at, &leaf);
  return leaf;
}

void RadixTree::extend(RadixNode& leaf, Tokens tokens, std::span<PageHandle> pages) {
  CHECK(!tokens.empty() && tokens.size() == pages.size() * index(page_tokens_),
        "{} tokens are not {} pages of {}", tokens.size(), pages.size(), page_tokens_);
  CHECK(leaf.parent != nullptr && leaf.children.empty() && !leaf.state,
        "node {} with {} children cannot grow", leaf.id.value, leaf.children.size());
  leaf.tokens.insert(leaf.tokens.end(), tokens.begin(), tokens.end());
  leaf.pages.insert(leaf.pages.end(), std::move_iterator(pages.begin()),
                    std::move_iterator(pages.end()));
  leaf.end_tokens += static_cast<std::int64_t>(tokens.size());
}

RadixNode& RadixTree::join(RadixNode& node) {
  CHECK(node.parent != nullptr && node.children.size() == 1 && !node.state,
        "node {} with {} children cannot be joined to one", node.id.value, node.children.size());
  RadixNode& child = *node.children.front();
  child.tokens.insert(child.tokens.begin(), node.tokens.begin(), node.tokens.end());
  child.pages.insert(child.pages.begin(), std::move_iterator(node.pages.begin()),
                     std::move_iterator(node.pages.end()));
  replace_child(*node.parent, node, child);
  destroy(node);
  return child;
}

void RadixTree::remove(RadixNode& node) {
  CHECK(node.children.empty(), "node {} has {} children", node.id.value, node.children.size());
  if (node.parent != nullptr) {
    std::erase(node.parent->children, &node);
  } else {
    roots_.erase(roots_.find(*node.name));
  }
  destroy(node);
}

// --- Checking -----------------------------------------------------------------------------------

Result<void> RadixTree::check_node(const RadixNode& node) const {
  if (node.tokens.size() != node.pages.size() * index(page_tokens_) ||
      (node.parent == nullptr) != node.tokens.empty()) {
    return fail(StatusCode::kInternal, "node {} has {} tokens and {} pages", node.id.value,
                node.tokens.size(), node.pages.size());
  }
  const std::int64_t start = node.parent == nullptr ? 0 : node.parent->end_tokens;
  if (node.start_tokens() != start) {
    return fail(StatusCode::kInternal, "node {} starts at {}, its parent ends at {}", node.id.value,
                node.start_tokens(), start);
  }
  const RadixNode* before = nullptr;
  for (const RadixNode* child : node.children) {
    if (child->parent != &node) {
      return fail(StatusCode::kInternal, "node {} does not know its parent {}", child->id.value,
                  node.id.value);
    }
    const auto first = [this](const RadixNode* n) {
      return Tokens(n->tokens).first(index(page_tokens_));
    };
    if (before != nullptr &&
        !std::lexicographical_compare(first(before).begin(), first(before).end(),
                                      first(child).begin(), first(child).end())) {
      return fail(StatusCode::kInternal, "the children of node {} are out of order", node.id.value);
    }
    before = child;
  }
  return {};
}

Result<void> RadixTree::integrity_check() const {
  std::size_t edges = 0;
  for (std::size_t slot = 0; slot < nodes_.size(); ++slot) {
    const RadixNode& node = *nodes_[slot];
    if (node.slot != slot) {
      return fail(StatusCode::kInternal, "node {} does not know its slot", node.id.value);
    }
    TRY(check_node(node));
    edges += node.children.size();
  }
  if (edges + roots_.size() != nodes_.size()) {
    return fail(StatusCode::kInternal, "{} nodes hang from {} roots by {} edges", nodes_.size(),
                roots_.size(), edges);
  }
  for (const auto& [name, root] : roots_) {
    if (root->parent != nullptr || root->name != &name) {
      return fail(StatusCode::kInternal, "root {} is none", root->id.value);
    }
  }
  return {};
}

}  // namespace tandem
