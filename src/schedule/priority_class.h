// The waiting requests of one priority.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "schedule/fair_share.h"
#include "schedule/waiting_line.h"

namespace tandem {

// A request that may be admitted, provided that all before it in the list were, or were passed
// over.
struct Candidate {
  RequestId id;
  // It was bypassed too often or waits for too long: if it is not admitted, nobody after it may be.
  bool blocks = false;
};

// How much going ahead of older requests is allowed.
struct PatienceLimits {
  std::int64_t max_bypass = 256;
  std::chrono::milliseconds max_wait{30'000};
};

// A list of candidates being made. Whatever part of it is admitted, every promise must hold: of
// those listed ahead of an entry all may be admitted, and of those behind it all but it.
struct CandidateListing {
  TimePoint now;
  std::size_t limit;
  PatienceLimits patience;
  std::uint64_t number;  // of this listing; entries inside carry it
  std::vector<Candidate>& found;

  bool is_full() const { return found.size() >= limit; }
  bool is_overdue(const WaitingEntry& oldest, std::int64_t bypasses) const {
    return bypasses + static_cast<std::int64_t>(found.size()) >= patience.max_bypass ||
           now - oldest.request.arrival > patience.max_wait;
  }
  void add_overdue(WaitingEntry& entry) { add(entry, true); }
  // An entry ahead of, or itself, one that waits and was bypassed so often. The list ends before it
  // could be once too often.
  void add_ahead(WaitingEntry& entry, std::int64_t bypasses) {
    add(entry, false);
    limit = std::min(limit, static_cast<std::size_t>(patience.max_bypass - bypasses));
  }

 private:
  void add(WaitingEntry& entry, bool blocks) {
    entry.listing = number;
    found.push_back({entry.request.id, blocks});
  }
};

// One line a tenant. Requests with a deadline go first, the earliest ahead; then tenants take turns
// by weighted fair queueing, and a tenant's line gives its request of the highest score.
//
// Patience is kept a line at a time: the oldest request of a line, once overdue, is what the line
// gives next and what everybody behind it in the list has to wait for; and no deadline counts any
// more. Other tenants whose turn comes first are not held up: one whose share is used up must not
// get more by waiting. So going ahead by an earlier turn is not a bypass; all else is.
//
// Refers to entries and owns none. Not thread-safe.
class PriorityClass {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The youngest; the class must not be empty.
  WaitingEntry& newest() const;

  void insert(WaitingEntry& entry);
  void erase(WaitingEntry& entry);
  void rerank(WaitingEntry& entry, QueueRank rank);

  // Takes out an entry that goes on to be computed, and counts whom it bypassed in this class.
  void admit(WaitingEntry& entry);
  // A request of a lower class was admitted.
  void count_bypass_from_below(const Arrival& admitted);

  // A tenant was given service. Ignored if it has not waited since the class was empty.
  void charge(TenantId tenant, double ms);

  // Appends the class's candidates in order. O(tenants + listed * log n).
  void list(CandidateListing& listing) const;

 private:
  struct Tenant {
    FairShare share;
    WaitingLine line;
  };
  struct EarlierDeadline {
    bool operator()(const WaitingEntry* a, const WaitingEntry* b) const {
      if (a->request.deadline != b->request.deadline) {
        return a->request.deadline < b->request.deadline;
      }
      return a->arrival() < b->arrival();
    }
  };
  // When it is a tenant's turn; at equal service, who waits for longest is first.
  struct Turn {
    double at;
    Arrival oldest;
    auto operator<=>(const Turn&) const = default;
  };
  static Turn turn_of(const Tenant& tenant) {
    return {tenant.share.turn(), tenant.line.oldest().arrival()};
  }

  Tenant& tenant_of(const WaitingEntry& entry);
  double least_served() const;
  void list_deadlines(CandidateListing& listing) const;
  void list_turns(CandidateListing& listing) const;

  // Lines may be empty: what a tenant was given is remembered until the class is empty.
  std::map<TenantId, Tenant> tenants_;
  std::set<WaitingEntry*, EarlierDeadline> deadlines_;
  std::size_t size_ = 0;
};

}  // namespace tandem
