#include "memory/request_memory.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

bool RequestMemory::admit(const NamespaceKey& name, const PrefixMatch& match, EntryCounts need) {
  CHECK(!admitted() && need.states > 0, "request {} is admitted once, with a working state",
        request_.value);
  // Locked first, so that the test does not count as evictable what the request is to read.
  PrefixLock lock = cache_->acquire(name, match);
  if (!cache_->can_make_room(need) || !cache_->evict_until({.states = 1, .pages = 0})) return false;
  work_ = arena_->allocate_work(request_);
  CHECK(work_, "no working state for request {} although there is room", request_.value);
  cache_->count_use(match);
  lock_ = std::move(lock);
  cache_->pages_of(lock_, 0, pages_);
  return true;
}

void RequestMemory::release() {
  snapshots_.clear();
  own_.clear();
  pages_.clear();
  work_.reset();
  lock_.reset();
}

std::int64_t RequestMemory::missing_pages(std::int64_t tokens) const {
  const std::int64_t wanted = (tokens + page_tokens() - 1) / page_tokens();
  return std::max<std::int64_t>(0, wanted - static_cast<std::int64_t>(pages_.size()));
}

bool RequestMemory::grow(std::int64_t tokens) {
  const std::int64_t missing = missing_pages(tokens);
  if (missing == 0) return true;
  if (!cache_->evict_until({.states = 0, .pages = missing})) return false;
  const std::size_t before = own_.size();
  own_.resize(before + index(missing));
  CHECK(arena_->allocate_pages(std::span(own_).subspan(before)),
        "no {} pages although there is room", missing);
  for (std::size_t i = before; i < own_.size(); ++i) pages_.push_back(own_[i].id());
  return true;
}

bool RequestMemory::add_snapshot(std::int64_t depth_tokens, CheckpointReason reason) {
  CHECK(snapshots_.empty() || snapshots_.back().depth_tokens < depth_tokens,
        "a snapshot at {} after one at {}", depth_tokens, snapshots_.back().depth_tokens);
  if (!cache_->evict_until({.states = 1, .pages = 0})) return false;
  StateHandle state = arena_->allocate_ping(request_, static_cast<int>(snapshots_.size() % 2));
  CHECK(state, "no snapshot for request {} although there is room", request_.value);
  snapshots_.push_back({std::move(state), depth_tokens, reason});
  return true;
}

void RequestMemory::drop_older_snapshots(std::int64_t committed_tokens) {
  const auto deeper = std::find_if(snapshots_.begin(), snapshots_.end(), [&](const Snapshot& s) {
    return s.depth_tokens > committed_tokens;
  });
  if (deeper - snapshots_.begin() > 1) snapshots_.erase(snapshots_.begin(), deeper - 1);
}

void RequestMemory::donate(std::span<const TokenId> tokens, std::int64_t committed_tokens) {
  std::vector<DonatedState> checkpoints;
  std::int64_t depth = 0;
  for (Snapshot& snapshot : snapshots_) {
    if (snapshot.depth_tokens > committed_tokens) break;
    depth = snapshot.depth_tokens;
    checkpoints.push_back({std::move(snapshot.state), depth, snapshot.reason});
  }
  if (checkpoints.empty()) return;
  snapshots_.erase(snapshots_.begin(),
                   snapshots_.begin() + static_cast<std::ptrdiff_t>(checkpoints.size()));
  const std::int64_t from = lock_.tokens();
  CHECK(depth >= from, "a snapshot at {} inside the {} tokens that are the tree's", depth, from);
  const auto given = index((depth - from) / page_tokens());
  Donation donation = cache_->donate(std::move(lock_), tokens.first(index(depth)),
                                     std::span(own_).first(given), checkpoints);
  lock_ = std::move(donation.lock);
  own_.erase(own_.begin(), own_.begin() + static_cast<std::ptrdiff_t>(given));
  std::vector<PageId> shared;
  cache_->pages_of(lock_, from, shared);
  std::copy(shared.begin(), shared.end(), pages_.begin() + from / page_tokens());
}

EntryCounts RequestMemory::owned() const {
  return {.states = (work_ ? 1 : 0) + snapshot_count(),
          .pages = static_cast<std::int64_t>(own_.size())};
}

}  // namespace tandem
