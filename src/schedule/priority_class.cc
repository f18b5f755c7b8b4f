#include "schedule/priority_class.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "base/check.h"

namespace tandem {

WaitingEntry& PriorityClass::newest() const {
  WaitingEntry* newest = nullptr;
  for (const auto& [id, tenant] : tenants_) {
    if (tenant.line.empty()) continue;
    WaitingEntry& last = tenant.line.newest();
    if (newest == nullptr || newest->arrival() < last.arrival()) newest = &last;
  }
  CHECK(newest != nullptr, "a class of {} requests has none", size_);
  return *newest;
}

PriorityClass::Tenant& PriorityClass::tenant_of(const WaitingEntry& entry) {
  const auto found = tenants_.find(entry.request.tenant);
  CHECK(found != tenants_.end(), "request {} is of no tenant here", entry.request.id.value);
  return found->second;
}

// Of those who wait; 0 if nobody does.
double PriorityClass::least_served() const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [id, tenant] : tenants_) {
    if (!tenant.line.empty()) least = std::min(least, tenant.share.served());
  }
  return size_ == 0 ? 0 : least;
}

void PriorityClass::insert(WaitingEntry& entry) {
  const QueuedRequest& request = entry.request;
  auto found = tenants_.find(request.tenant);
  if (found == tenants_.end()) {
    Tenant newcomer = {FairShare(request.weight, least_served()), {}};
    found = tenants_.emplace(request.tenant, std::move(newcomer)).first;
  } else if (found->second.line.empty()) {
    found->second.share.come_back(least_served());
  }
  found->second.share.set_weight(request.weight);
  found->second.line.insert(entry);
  if (request.deadline) deadlines_.insert(&entry);
  ++size_;
}

void PriorityClass::erase(WaitingEntry& entry) {
  tenant_of(entry).line.erase(entry);
  if (entry.request.deadline) deadlines_.erase(&entry);
  if (--size_ == 0) tenants_.clear();
}

void PriorityClass::rerank(WaitingEntry& entry, QueueRank rank) {
  tenant_of(entry).line.rerank(entry, rank);
}

void PriorityClass::admit(WaitingEntry& entry) {
  Tenant& served = tenant_of(entry);
  const Turn turn = turn_of(served);
  const Arrival arrival = entry.arrival();
  served.line.erase(entry);
  for (auto& [id, tenant] : tenants_) {
    if (tenant.line.empty()) continue;
    const bool had_an_earlier_turn = &tenant != &served && turn < turn_of(tenant);
    if (!had_an_earlier_turn) tenant.line.count_bypass(arrival);
  }
  served.share.expect(entry.request.work.remaining_ms);
  if (entry.request.deadline) deadlines_.erase(&entry);
  if (--size_ == 0) tenants_.clear();
}

void PriorityClass::count_bypass_from_below(const Arrival& admitted) {
  for (auto& [id, tenant] : tenants_) tenant.line.count_bypass(admitted);
}

void PriorityClass::charge(TenantId tenant, double ms) {
  if (const auto found = tenants_.find(tenant); found != tenants_.end()) {
    found->second.share.charge(ms);
  }
}

void PriorityClass::list(CandidateListing& listing) const {
  list_deadlines(listing);
  if (!listing.is_full()) list_turns(listing);
}

void PriorityClass::list_deadlines(CandidateListing& listing) const {
  if (deadlines_.empty()) return;
  // The oldest and the most often bypassed may be two; that both bounds hold is all that matters.
  const WaitingEntry* oldest = nullptr;
  std::int64_t bypasses = 0;
  for (const auto& [id, tenant] : tenants_) {
    if (tenant.line.empty()) continue;
    const WaitingEntry& first = tenant.line.oldest();
    if (oldest == nullptr || first.arrival() < oldest->arrival()) oldest = &first;
    bypasses = std::max(bypasses, tenant.line.oldest_bypasses());
  }
  for (WaitingEntry* entry : deadlines_) {
    if (listing.is_full() || listing.is_overdue(*oldest, bypasses)) return;
    listing.add_ahead(*entry, bypasses);
  }
}

void PriorityClass::list_turns(CandidateListing& listing) const {
  // What the list takes from a tenant, as if it were admitted.
  struct Taken {
    FairShare share;
    WaitingLine::Cursor line;
  };
  struct Next {
    Turn turn;
    const Tenant* tenant;
    std::unique_ptr<Taken> taken = {};  // made when it is first the tenant's turn
  };
  const auto later = [](const Next& a, const Next& b) { return b.turn < a.turn; };
  std::vector<Next> nexts;
  nexts.reserve(tenants_.size());
  for (const auto& [id, tenant] : tenants_) {
    if (!tenant.line.empty()) nexts.push_back({turn_of(tenant), &tenant});
  }
  std::make_heap(nexts.begin(), nexts.end(), later);
  while (!nexts.empty() && !listing.is_full()) {
    std::pop_heap(nexts.begin(), nexts.end(), later);
    Next& next = nexts.back();
    const bool is_first = next.taken == nullptr;
    if (is_first) {
      next.taken = std::make_unique<Taken>(
          Taken{next.tenant->share, WaitingLine::Cursor(next.tenant->line, listing.number)});
    }
    WaitingEntry* oldest = next.taken->line.oldest();
    // Those with a deadline may be listed already, and with them whom the turn was based on.
    const bool is_stale = is_first && oldest != nullptr && next.turn.oldest != oldest->arrival();
    if (oldest != nullptr && !is_stale) {
      const std::int64_t bypasses = next.taken->line.oldest_bypasses();
      WaitingEntry* entry = oldest;
      if (listing.is_overdue(*oldest, bypasses)) {
        listing.add_overdue(*oldest);
      } else {
        entry = next.taken->line.best(listing.now);
        listing.add_ahead(*entry, bypasses);
      }
      next.taken->share.expect(entry->request.work.remaining_ms);
      oldest = next.taken->line.oldest();
    }
    if (oldest == nullptr) {
      nexts.pop_back();
      continue;
    }
    next.turn = {next.taken->share.turn(), oldest->arrival()};
    std::push_heap(nexts.begin(), nexts.end(), later);
  }
}

}  // namespace tandem
