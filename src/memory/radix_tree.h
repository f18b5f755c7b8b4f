// The shape of the prefix tree: edges of tokens with the pages of their rows, one root per
// namespace.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "memory/radix_node.h"

namespace tandem {

// Why no more of a prompt was found.
enum class MatchEnd : std::uint8_t {
  kPromptEnds,   // all of it, up to the limit, is cached text
  kTextDiffers,  // cached text goes on with another token
  kCacheEnds,    // the cached text ends here
};

// How far cached text agrees with a prompt.
struct RadixWalk {
  RadixNode* node = nullptr;     // the deepest one with a shared row, or where the walk began
  std::int64_t row_tokens = 0;   // whole pages shared; may lie inside `node`
  std::int64_t text_tokens = 0;  // tokens shared: row_tokens and less than a page more
  MatchEnd end = MatchEnd::kCacheEnds;
};

// Knows neither eviction nor budgets; counts no locks, but carries them over when edges are cut and
// joined. Nodes keep their address and id; of two nodes made from one, or joined, the lower one is
// the node that was there before, and keeps its state. Not thread-safe.
class RadixTree {
 public:
  explicit RadixTree(std::int64_t page_tokens) : page_tokens_(page_tokens) {}
  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;

  std::int64_t page_tokens() const { return page_tokens_; }
  std::int64_t whole_pages(std::int64_t tokens) const { return tokens - tokens % page_tokens_; }

  // Null if nothing was ever put into the namespace.
  RadixNode* find_root(const NamespaceKey& name) const;
  RadixNode& root(const NamespaceKey& name);

  // Follows `tokens`, of which those before from.end_tokens are known to lead to `from`; never
  // beyond `limit_tokens`. Changes and allocates nothing.
  RadixWalk walk(RadixNode& from, std::span<const TokenId> tokens, std::int64_t limit_tokens) const;

  // Cuts an edge at a page boundary inside it. Returns the new upper node.
  RadixNode& split(RadixNode& node, std::int64_t depth_tokens);
  // A new leaf. `tokens` are whole pages, one each of `pages`, whose handles are moved from; no
  // child may begin with the same page.
  RadixNode& append(RadixNode& parent, std::span<const TokenId> tokens,
                    std::span<PageHandle> pages);
  // Lengthens the edge of a node without children and state.
  void extend(RadixNode& leaf, std::span<const TokenId> tokens, std::span<PageHandle> pages);
  // Puts a stateless node's edge in front of its only child's, and returns that child.
  RadixNode& join(RadixNode& node);
  // A node without children; gives back its pages and its state.
  void remove(RadixNode& node);

  std::span<const std::unique_ptr<RadixNode>> nodes() const { return nodes_; }
  std::size_t namespaces() const { return roots_.size(); }

  // kInternal with the first contradiction between edges, pages, order and parents.
  Result<void> integrity_check() const;

 private:
  struct ChildMatch {
    RadixNode* child = nullptr;  // the one that shares most with the tokens asked for
    std::int64_t tokens = 0;     // how many
  };

  RadixNode& make_node();
  void destroy(RadixNode& node);
  ChildMatch best_child(const RadixNode& node, std::span<const TokenId> tokens) const;
  Result<void> check_node(const RadixNode& node) const;

  const std::int64_t page_tokens_;
  std::uint64_t next_id_ = 1;
  std::unordered_map<NamespaceKey, RadixNode*> roots_;
  std::vector<std::unique_ptr<RadixNode>> nodes_;
};

}  // namespace tandem
