// The shadow's states, its eviction and its comparison with the real thing.
#include <algorithm>
#include <limits>

#include "memory/prefix_shadow.h"

namespace tandem::testing {

// --- States -------------------------------------------------------------------------------------

void PrefixShadow::plant(ShadowNode& end, std::int64_t depth) {
  ShadowNode* node = &end;
  while (node->depth > depth) node = node->parent;
  if (node->has_state) return;
  node->has_state = true;
  node->was_evicted = false;
  node->frequency = 1;
  node->base = clock_;
  node->used_at = at_.clock.now();
  states_.push_back(node);
  trim(*node);
}

// Shallowest first, while more than the cap are on the path.
void PrefixShadow::trim(ShadowNode& tail) {
  const std::int64_t cap = at_.cache->options().max_states_per_path;
  std::vector<ShadowNode*> path;
  for (ShadowNode* up = &tail; up != nullptr; up = up->parent) {
    if (up->has_state) path.push_back(up);
  }
  std::reverse(path.begin(), path.end());
  auto excess = cap == 0 ? 0 : static_cast<std::int64_t>(path.size()) - cap;
  for (ShadowNode* node : path) {
    bool forks = false;
    for (const ShadowNode* down = node; !forks && (down == node || !down->has_state);) {
      forks = down->children.size() > 1;
      if (down->children.size() != 1) break;
      down = down->children.begin()->second.get();
    }
    if (excess <= 0 || node == &tail || is_state_locked(*node) || forks) continue;
    node->has_state = false;
    node->was_evicted = true;
    std::erase(states_, node);
    --excess;
  }
}

bool PrefixShadow::is_locked(const ShadowNode& node) const {
  return std::any_of(requests_.begin(), requests_.end(), [&](const Request& request) {
    const ShadowNode* up = request.rows;
    while (up != nullptr && up != &node) up = up->parent;
    return up == &node;
  });
}

bool PrefixShadow::is_state_locked(const ShadowNode& node) const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [&](const Request& request) { return request.state == &node; });
}

double PrefixShadow::value(const ShadowNode& node) const {
  std::int64_t freed = CacheFixture::kStateBytes;
  if (node.children.empty() && !is_locked(node)) {
    freed += CacheFixture::kPageBytes;
    for (const ShadowNode* up = node.parent;
         up->parent != nullptr && !up->has_state && up->children.size() == 1 && !is_locked(*up);
         up = up->parent) {
      freed += CacheFixture::kPageBytes;
    }
  }
  const ShadowNode* fallback = node.parent;
  while (fallback->parent != nullptr && !fallback->has_state) fallback = fallback->parent;
  const double saved = quadratic_cost(node.depth) - quadratic_cost(fallback->depth);
  return node.base + node.frequency * (saved / static_cast<double>(freed));
}

// Gives up rows that nobody holds and that lead to no state.
void PrefixShadow::prune(ShadowNode* node) {
  while (node->parent != nullptr && node->children.empty() && !node->has_state &&
         !is_locked(*node)) {
    ShadowNode* parent = node->parent;
    std::erase_if(parent->children,
                  [node](const auto& child) { return child.second.get() == node; });
    node = parent;
  }
}

// --- Room ---------------------------------------------------------------------------------------

// Whether the cache has this state, which the shadow believes it has.
bool PrefixShadow::is_found(const ShadowNode& node) const {
  std::vector<TokenId> tokens;
  const ShadowNode* at = &node;
  for (; at->parent != nullptr; at = at->parent) {
    for (const auto& [page, child] : at->parent->children) {
      if (child.get() == at) tokens.insert(tokens.begin(), page.begin(), page.end());
    }
  }
  const auto root = std::find_if(roots_.begin(), roots_.end(),
                                 [at](const auto& candidate) { return candidate.get() == at; });
  return match(static_cast<int>(root - roots_.begin()), tokens, node.depth).usable_tokens ==
         node.depth;
}

// The cache chooses; the state that is gone must have been one of least value.
Result<void> PrefixShadow::evict_one() {
  double least = std::numeric_limits<double>::infinity();
  for (const ShadowNode* node : states_) {
    if (!is_state_locked(*node)) least = std::min(least, value(*node));
  }
  const bool any = least < std::numeric_limits<double>::infinity();
  if (at_.cache->evict_one() != any) return differs("something can be evicted: {}", any);
  if (!any) return {};
  ShadowNode* victim = nullptr;
  for (ShadowNode* node : states_) {
    if (is_found(*node)) continue;
    if (victim != nullptr) return differs("two states went at once");
    victim = node;
  }
  if (victim == nullptr) return differs("no state went");
  if (is_state_locked(*victim)) return differs("a locked state went");
  if (value(*victim) != least) {
    return differs("a state of value {} went, the least is {}", value(*victim), least);
  }
  clock_ = std::max(clock_, least);
  victim->has_state = false;
  victim->was_evicted = true;
  std::erase(states_, victim);
  prune(victim);
  return {};
}

Result<void> PrefixShadow::make_room(EntryCounts need, bool& made) {
  made = at_.cache->can_make_room(need);
  if (!made) {
    const std::uint64_t before = at_.cache->digest();
    if (at_.cache->evict_until(need)) return differs("room that there cannot be was made");
    if (at_.cache->digest() != before) return differs("evicted for nothing");
    return {};
  }
  while (!at_.arena->can_allocate(need)) {
    if (states_.empty()) return differs("promised room cannot be made");
    TRY(evict_one());
  }
  return {};
}

// --- Comparing ----------------------------------------------------------------------------------

Result<void> PrefixShadow::check_nodes(int space, const ShadowNode& node,
                                       std::vector<TokenId>& tokens, PrefixUsage& sum) const {
  if (node.parent != nullptr) {
    ++sum.pages;
    sum.states += node.has_state ? 1 : 0;
    sum.locked_states += is_state_locked(node) ? 1 : 0;
    sum.locked_pages += is_locked(node) ? 1 : 0;
    sum.tombstones += node.was_evicted ? 1 : 0;
  }
  if (node.children.empty()) {
    if (ShadowNode* end = TRY(compare_match(space, tokens, node.depth)); end != &node) {
      return differs("a path ends at {}, not at {}", end->depth, node.depth);
    }
  }
  for (const auto& [page, child] : node.children) {
    tokens.insert(tokens.end(), page.begin(), page.end());
    TRY(check_nodes(space, *child, tokens, sum));
    tokens.resize(tokens.size() - page.size());
  }
  return {};
}

Result<void> PrefixShadow::check_locks() const {
  for (const Request& request : requests_) {
    std::vector<PageId> pages;
    at_.cache->pages_of(request.lock, 0, pages);
    const ShadowNode* up = request.rows;
    for (auto page = pages.rbegin(); page != pages.rend(); ++page, up = up->parent) {
      if (up->page != *page) return differs("page {} is another's", page->index);
    }
    const std::int64_t state_tokens = request.state == nullptr ? 0 : request.state->depth;
    if (up->parent != nullptr || request.lock.has_state() != (request.state != nullptr) ||
        request.lock.state_tokens() != state_tokens) {
      return differs("a lock keeps {} tokens and a state at {}", request.lock.tokens(),
                     request.lock.state_tokens());
    }
  }
  return {};
}

Result<void> PrefixShadow::check() const {
  TRY(at_.cache->integrity_check());
  TRY(at_.arena->integrity_check());
  TRY(check_locks());
  PrefixUsage sum;
  for (std::size_t space = 0; space < roots_.size(); ++space) {
    std::vector<TokenId> tokens;
    TRY(check_nodes(static_cast<int>(space), *roots_[space], tokens, sum));
  }
  const PrefixUsage usage = at_.cache->usage();
  if (usage.pages != sum.pages || usage.states != sum.states ||
      usage.locked_pages != sum.locked_pages || usage.locked_states != sum.locked_states ||
      usage.tombstones != sum.tombstones || usage.locks != std::ssize(requests_)) {
    return differs(
        "{} pages ({} locked), {} states ({} locked), {} tombstones; expected {} ({}), {} ({}), {}",
        usage.pages, usage.locked_pages, usage.states, usage.locked_states, usage.tombstones,
        sum.pages, sum.locked_pages, sum.states, sum.locked_states, sum.tombstones);
  }
  const EntryCounts taken = at_.arena->usage().taken;
  if (taken == EntryCounts{.states = sum.states, .pages = sum.pages}) return {};
  return differs("the arena lends {} states and {} pages", taken.states, taken.pages);
}

Result<void> PrefixShadow::finish() {
  while (!requests_.empty()) TRY(finish_request(requests_.size() - 1));
  TRY(check());
  while (!states_.empty()) TRY(evict_one());
  if (at_.cache->usage() == PrefixUsage{} && at_.arena->usage().taken == EntryCounts{}) return {};
  return differs("something is left");
}

}  // namespace tandem::testing
