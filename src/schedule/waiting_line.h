// The waiting requests of one tenant in one priority class.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "schedule/queue_policy.h"

namespace tandem {

// Who pays; numbered by the caller.
using TenantId = Id<struct TenantTag>;

struct PrefillWork {
  double hit_ms = 0;        // saved by the prefix cache
  double remaining_ms = 0;  // still to compute
};

struct QueuedRequest {
  RequestId id;
  TenantId tenant = {};
  double weight = 1;  // of the tenant, above 0
  int priority = 0;
  TimePoint arrival = {};
  std::optional<TimePoint> deadline = {};
  PrefillWork work = {};
  std::int64_t max_new_tokens = 0;
};

// Older is less; ids settle who came first at one time.
struct Arrival {
  TimePoint time;
  RequestId id;
  auto operator<=>(const Arrival&) const = default;
};

// A score that grows with time at its own pace: (now - key_ms) / pace_ms. Requests of one pace
// never overtake each other, so each pace keeps a sorted list and only the heads have to be
// compared.
struct QueueRank {
  int pace = 0;  // 0 is a pace of 1 ms; each further one is an eighth of an octave slower
  double key_ms = 0;
};

// The rank of a request under a policy. `auto` and `hrrn` take the remaining time, rounded up, as
// the pace; for the others, all have the same pace and the key alone decides. `seed` is of
// `random`.
QueueRank rank_of(const QueuedRequest& request, QueuePolicy policy, std::uint64_t seed);

struct WaitingEntry {
  QueuedRequest request;
  QueueRank rank;
  // Admissions younger than this entry and not younger than the next one in its line.
  std::int64_t passed_here = 0;
  std::uint64_t listing = 0;  // the last listing that contains it

  Arrival arrival() const { return {request.arrival, request.id}; }
};

// Refers to entries and owns none. Not thread-safe.
//
// Keeps for the oldest entry how many younger requests went ahead of it. Whoever went ahead of an
// entry went ahead of all older ones, so the oldest has the highest count; and counts are stored as
// differences between neighbours, so that one more for "all older than this" is one addition.
class WaitingLine {
 public:
  bool empty() const { return by_arrival_.empty(); }
  const WaitingEntry& oldest() const { return **by_arrival_.begin(); }
  WaitingEntry& newest() const { return **by_arrival_.rbegin(); }
  std::int64_t oldest_bypasses() const { return oldest_bypasses_; }

  // An entry that is older than others inside counts as bypassed as often as the next younger one.
  void insert(WaitingEntry& entry);
  void erase(WaitingEntry& entry);
  void rerank(WaitingEntry& entry, QueueRank rank);
  // A request of that arrival, not inside, was admitted.
  void count_bypass(const Arrival& admitted);

  // Walks over the line in the order of picking, as if what it gave were gone. Valid until the line
  // changes.
  class Cursor;

 private:
  struct OlderFirst {
    using is_transparent = void;
    bool operator()(const WaitingEntry* a, const WaitingEntry* b) const {
      return a->arrival() < b->arrival();
    }
    bool operator()(const WaitingEntry* a, const Arrival& b) const { return a->arrival() < b; }
    bool operator()(const Arrival& a, const WaitingEntry* b) const { return a < b->arrival(); }
  };
  struct BetterFirst {
    bool operator()(const WaitingEntry* a, const WaitingEntry* b) const {
      if (a->rank.key_ms != b->rank.key_ms) return a->rank.key_ms < b->rank.key_ms;
      return a->arrival() < b->arrival();
    }
  };
  using ArrivalOrder = std::set<WaitingEntry*, OlderFirst>;
  using PaceOrder = std::set<WaitingEntry*, BetterFirst>;

  void add_to_pace(WaitingEntry& entry);
  void take_from_pace(WaitingEntry& entry);

  ArrivalOrder by_arrival_;
  std::map<int, PaceOrder> by_pace_;  // none empty
  std::int64_t oldest_bypasses_ = 0;  // the sum of passed_here
};

class WaitingLine::Cursor {
 public:
  // Passes over entries that the listing contains. `line` must outlive the cursor.
  Cursor(const WaitingLine& line, std::uint64_t listing)
      : line_(line),
        listing_(listing),
        oldest_(line.by_arrival_.begin()),
        oldest_bypasses_(line.oldest_bypasses_) {}

  // The oldest that is left, null if none is.
  WaitingEntry* oldest();
  // How often that one was bypassed.
  std::int64_t oldest_bypasses() const { return oldest_bypasses_; }
  // The one of the highest score that is left, null if none is. `now` must not change between
  // calls.
  WaitingEntry* best(TimePoint now);

 private:
  struct Head {
    double score;
    PaceOrder::const_iterator at;
    const PaceOrder* order;
    double pace_ms;
  };
  // Moves to the first entry not listed; false if there is none.
  bool settle(Head& head, double now_ms) const;

  const WaitingLine& line_;
  const std::uint64_t listing_;
  ArrivalOrder::const_iterator oldest_;
  std::int64_t oldest_bypasses_;
  bool has_heads_ = false;
  std::vector<Head> heads_;  // a heap, the best in front
};

}  // namespace tandem
