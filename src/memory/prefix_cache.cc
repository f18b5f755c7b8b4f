#include "memory/prefix_cache.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

// --- Making -------------------------------------------------------------------------------------

Result<std::unique_ptr<PrefixCache>> PrefixCache::create(Arena& arena, const Clock& clock,
                                                         PrefixCacheOptions options) {
  if (options.page_tokens <= 0 || options.grid_tokens <= 0 ||
      options.grid_tokens % options.page_tokens != 0) {
    return invalid("checkpoints every {} tokens do not fall on pages of {}", options.grid_tokens,
                   options.page_tokens);
  }
  if (options.max_states_per_path < 0) {
    return invalid("a path cannot keep {} states", options.max_states_per_path);
  }
  if (!options.prefill_cost) return invalid("the prefix cache needs a table of prefill times");
  return std::unique_ptr<PrefixCache>(new PrefixCache(arena, clock, std::move(options)));
}

PrefixCache::PrefixCache(Arena& arena, const Clock& clock, PrefixCacheOptions options)
    : arena_(arena),
      options_(std::move(options)),
      tree_(options_.page_tokens),
      order_(arena.geometry(), options_.prefill_cost, clock) {}

PrefixCache::~PrefixCache() {
  CHECK(usage_.locks == 0, "a prefix cache dies before {} of its locks", usage_.locks);
}

void PrefixCache::learn_cost(PrefillCost measured) {
  options_.prefill_cost = measured;
  order_.learn(std::move(measured));
}

// --- Matching -----------------------------------------------------------------------------------

PrefixMatch PrefixCache::match(const NamespaceKey& name, std::span<const TokenId> tokens,
                               std::int64_t limit_tokens) const {
  PrefixMatch match;
  match.version_ = version_;
  RadixNode* root = tree_.find_root(name);
  if (root == nullptr) {
    if (tokens.empty() || limit_tokens <= 0) match.end = MatchEnd::kPromptEnds;
    return match;
  }
  const RadixWalk walk = tree_.walk(*root, tokens, limit_tokens);
  match.row_node_ = walk.node;
  match.row_tokens = walk.row_tokens;
  match.text_tokens = walk.text_tokens;
  match.end = walk.end;
  bool was_evicted = false;
  for (RadixNode* node = walk.node; node != nullptr; node = node->parent) {
    if (node->end_tokens > walk.row_tokens) continue;
    if (node->state) {
      match.state_node_ = node;
      match.usable_tokens = node->end_tokens;
      break;
    }
    was_evicted = was_evicted || node->is_tombstone;
  }
  const std::int64_t branch = match.row_tokens - match.row_tokens % options_.grid_tokens;
  if (branch > match.usable_tokens) match.branch_tokens = branch;
  if (match.replay_tokens() > 0) {
    match.replay = was_evicted                ? ReplayCause::kEvicted
                   : match.branch_tokens != 0 ? ReplayCause::kBranch
                                              : ReplayCause::kGrid;
  }
  return match;
}

// --- Locking ------------------------------------------------------------------------------------

PrefixLock PrefixCache::acquire(const NamespaceKey& name, const PrefixMatch& match,
                                LockExtent extent) {
  CHECK(match.version_ == version_, "the cache changed between a match and its lock");
  ++version_;
  RadixNode* node = extent == LockExtent::kRows ? match.row_node_ : match.state_node_;
  if (node == nullptr) node = &tree_.root(name);
  if (extent == LockExtent::kRows && match.row_tokens < node->end_tokens) {
    node = &cut(*node, match.row_tokens);
  }
  for (RadixNode* up = node; up != nullptr; up = up->parent) add_row_lock(*up);
  ++usage_.locks;
  if (match.state_node_ != nullptr) lock_state(*match.state_node_);
  return {this, node, match.state_node_};
}

void PrefixCache::count_use(const PrefixMatch& match) {
  ++counters_.lookups;
  counters_.hit_tokens += match.usable_tokens;
  counters_.row_hit_tokens += match.row_tokens;
  counters_.lost_to_state_tokens += match.replay_tokens();
  counters_.replay_tokens[static_cast<std::size_t>(match.replay)] += match.replay_tokens();
  if (RadixNode* state = match.state_node_; state != nullptr) {
    CHECK(state->state_locks > 0, "a state is used before it is locked");
    order_.touch(*state);
    ++state->uses;
    ++counters_.used[static_cast<std::size_t>(state->reason)];
  }
}

void PrefixCache::add_row_lock(RadixNode& node) {
  if (node.row_locks++ == 0) usage_.locked_pages += node.page_count();
}

void PrefixCache::drop_row_lock(RadixNode& node) {
  CHECK(node.row_locks > 0, "node {} has no lock to release", node.id.value);
  if (--node.row_locks == 0) usage_.locked_pages -= node.page_count();
}

void PrefixCache::lock_state(RadixNode& node) {
  if (node.state_locks++ != 0) return;
  ++usage_.locked_states;
  order_.erase(node);
}

void PrefixCache::unlock_state(RadixNode& node) {
  CHECK(node.state_locks > 0, "the state of node {} has no lock to release", node.id.value);
  if (--node.state_locks != 0) return;
  --usage_.locked_states;
  order_.insert(node);
}

void PrefixCache::release(PrefixLock& lock) {
  ++version_;
  if (lock.state_node_ != nullptr) unlock_state(*lock.state_node_);
  for (RadixNode* up = lock.node_; up != nullptr; up = up->parent) drop_row_lock(*up);
  --usage_.locks;
  settle(lock.node_, EvictionCause::kUseless);
}

StateId PrefixLock::state() const {
  CHECK(has_state(), "a lock of {} tokens has no state", tokens());
  return state_node_->state.id();
}

void PrefixLock::release_state() {
  if (state_node_ == nullptr) return;
  ++cache_->version_;
  cache_->unlock_state(*std::exchange(state_node_, nullptr));
}

void PrefixLock::reset() {
  if (cache_ == nullptr) return;
  std::exchange(cache_, nullptr)->release(*this);
  node_ = nullptr;
  state_node_ = nullptr;
}

void PrefixCache::pages_of(const PrefixLock& lock, std::int64_t from_tokens,
                           std::vector<PageId>& pages) const {
  CHECK(lock.cache_ == this && from_tokens >= 0 && from_tokens <= lock.tokens() &&
            from_tokens % options_.page_tokens == 0,
        "a lock of {} tokens has no pages from {}", lock.tokens(), from_tokens);
  // Bottom up, each node from its last page to its first; so the appended part is filled backwards.
  const std::size_t old_size = pages.size();
  pages.resize(old_size + index((lock.tokens() - from_tokens) / options_.page_tokens));
  auto at = pages.end();
  for (const RadixNode* node = lock.node_; node->end_tokens > from_tokens; node = node->parent) {
    for (auto page = node->pages.rbegin(); page != node->pages.rend(); ++page) {
      if (at == pages.begin() + static_cast<std::ptrdiff_t>(old_size)) return;
      *--at = page->id();
    }
  }
}

// --- Room ---------------------------------------------------------------------------------------

EntryCounts PrefixCache::evictable() const {
  return {.states = usage_.states - usage_.locked_states,
          .pages = usage_.pages - usage_.locked_pages};
}

bool PrefixCache::evict_until(EntryCounts need) {
  if (!can_make_room(need)) return false;
  while (!arena_.can_allocate(need)) {
    if (!evict_one()) return false;
  }
  return true;
}

bool PrefixCache::is_pinned(const RadixNode& node) const {
  if (arena_.usage().pinned == EntryCounts{}) return false;
  if (arena_.is_pinned(node.state.id())) return true;
  std::int64_t freed_pages = EvictionOrder::freed_by(node).pages;
  for (const RadixNode* up = &node; freed_pages > 0; up = up->parent) {
    const auto pinned = [this](const PageHandle& page) { return arena_.is_pinned(page.id()); };
    if (std::any_of(up->pages.begin(), up->pages.end(), pinned)) return true;
    freed_pages -= up->page_count();
  }
  return false;
}

bool PrefixCache::evict_one() {
  std::vector<RadixNode*> pinned;
  RadixNode* victim = order_.least();
  while (victim != nullptr && is_pinned(*victim)) {
    order_.erase(*victim);
    pinned.push_back(victim);
    victim = order_.least();
  }
  for (RadixNode* node : pinned) order_.insert(*node);
  if (victim == nullptr) return false;
  order_.advance(*victim);
  evict(*victim, EvictionCause::kPressure);
  return true;
}

}  // namespace tandem
