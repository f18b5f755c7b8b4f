#include "schedule/request_queue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace tandem {

std::optional<QueuedRequest> RequestQueue::push(QueuedRequest request) {
  std::optional<QueuedRequest> sent_away;
  if (size() >= options_.max_queued) {
    const QueuedRequest* last = lowest();
    if (options_.when_full == WhenFull::kRefuseNew || last == nullptr ||
        class_key(last->priority) <= class_key(request.priority)) {
      return request;
    }
    sent_away = *last;
    remove(last->id);
  }
  reinsert(std::move(request));
  return sent_away;
}

void RequestQueue::reinsert(QueuedRequest request) {
  CHECK(request.weight > 0, "a tenant's weight of {}", request.weight);
  if (options_.policy != QueuePolicy::kAuto) {
    request.tenant = {};
    request.deadline.reset();
  }
  const RequestId id = request.id;
  const QueueRank rank = rank_of(request, options_.policy, options_.seed);
  const auto [at, is_new] =
      entries_.try_emplace(id, WaitingEntry{.request = std::move(request), .rank = rank});
  CHECK(is_new, "request {} waits already", id.value);
  classes_[class_key(at->second.request.priority)].insert(at->second);
}

WaitingEntry& RequestQueue::entry_of(RequestId id) {
  const auto found = entries_.find(id);
  CHECK(found != entries_.end(), "request {} does not wait", id.value);
  return found->second;
}

PriorityClass& RequestQueue::class_of(const WaitingEntry& entry) {
  return classes_.at(class_key(entry.request.priority));
}

// Of an entry that its class has given up.
void RequestQueue::forget(WaitingEntry& entry) {
  const auto found = classes_.find(class_key(entry.request.priority));
  if (found->second.empty()) classes_.erase(found);
  entries_.erase(entry.request.id);
}

bool RequestQueue::remove(RequestId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  class_of(found->second).erase(found->second);
  forget(found->second);
  return true;
}

void RequestQueue::admit(RequestId id) {
  WaitingEntry& entry = entry_of(id);
  const auto own = classes_.find(class_key(entry.request.priority));
  for (auto above = classes_.begin(); above != own; ++above) {
    above->second.count_bypass_from_below(entry.arrival());
  }
  own->second.admit(entry);
  forget(entry);
}

void RequestQueue::update_work(RequestId id, PrefillWork work) {
  WaitingEntry& entry = entry_of(id);
  entry.request.work = work;
  class_of(entry).rerank(entry, rank_of(entry.request, options_.policy, options_.seed));
}

void RequestQueue::charge(TenantId tenant, double ms) {
  if (options_.policy != QueuePolicy::kAuto) return;
  for (auto& [key, requests] : classes_) requests.charge(tenant, ms);
}

std::vector<Candidate> RequestQueue::candidates(TimePoint now, std::size_t limit) {
  return list(now, limit, options_.patience);
}

std::vector<Candidate> RequestQueue::list(TimePoint now, std::size_t limit,
                                          const PatienceLimits& patience) {
  std::vector<Candidate> found;
  CandidateListing listing = {
      .now = now, .limit = limit, .patience = patience, .number = ++listings_, .found = found};
  for (const auto& [key, requests] : classes_) {
    if (listing.is_full()) break;
    requests.list(listing);
  }
  return found;
}

std::optional<std::size_t> RequestQueue::position(RequestId id, TimePoint now) {
  if (!entries_.contains(id)) return std::nullopt;
  // To the end, where candidates() would stop before a promise is at stake.
  PatienceLimits patience = options_.patience;
  patience.max_bypass = std::numeric_limits<std::int64_t>::max() / 2;
  const auto order = list(now, size(), patience);
  const auto at = std::ranges::find(order, id, &Candidate::id);
  CHECK(at != order.end(), "request {} waits but is not listed", id.value);
  return static_cast<std::size_t>(at - order.begin());
}

const QueuedRequest* RequestQueue::lowest() const {
  return classes_.empty() ? nullptr : &classes_.rbegin()->second.newest().request;
}

const QueuedRequest* RequestQueue::find(RequestId id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second.request;
}

std::size_t RequestQueue::size(int priority) const {
  const auto found = classes_.find(class_key(priority));
  return found == classes_.end() ? 0 : found->second.size();
}

}  // namespace tandem
