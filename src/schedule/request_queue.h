// Requests that wait to be admitted, and who is next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "schedule/priority_class.h"
#include "schedule/queue_policy.h"
#include "schedule/waiting_line.h"

namespace tandem {

enum class PriorityOrder { kHighFirst, kLowFirst };

// Which request goes when one more comes to a full queue.
enum class WhenFull {
  kRefuseNew,
  kDropLower,  // the newest of the lowest class, if that is below the new one's; else the new one
};

struct RequestQueueOptions {
  QueuePolicy policy = QueuePolicy::kAuto;
  PriorityOrder priority_order = PriorityOrder::kHighFirst;
  std::size_t max_queued = 4096;
  WhenFull when_full = WhenFull::kRefuseNew;
  PatienceLimits patience = {};
  std::uint64_t seed = 0;  // of the policy `random`
};

// Classes by priority; within one, the policy. Under `auto` that is PriorityClass: deadlines,
// tenants in turn, and of a tenant's requests the one with the highest
//
//   (time saved by the cache + time waited) / time still to compute, rounded up to 1/8 of an octave
//
// Under the others all are of one tenant and deadlines do not count. Under any, a request is not
// bypassed more than patience.max_bypass times by younger ones of its own or a lower class, nor at
// all once it waited for patience.max_wait, turns of tenants aside: it then heads its line. This
// holds for a caller that respects Candidate::blocks and charges nothing between candidates() and
// the last admit() from its list.
//
// Decisions depend on the calls alone. Costs: n waiting, t tenants that wait, c classes. Unless
// said otherwise O(log n), and O(t) for the first request of a tenant. Not thread-safe.
class RequestQueue {
 public:
  explicit RequestQueue(RequestQueueOptions options) : options_(options) {}
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  // A new request, of an id not inside. Returns the request for which there is no room, which is
  // not inside any more: none, the new one, or one that had waited.
  std::optional<QueuedRequest> push(QueuedRequest request);
  // A request that was admitted and has to wait again, with its first arrival. There is always
  // room.
  void reinsert(QueuedRequest request);

  // Takes out one that is cancelled, or sent away. False if it is not inside.
  bool remove(RequestId id);
  // Takes out one from a list of candidates that goes on to be computed, and counts whom it
  // bypassed. It must be inside. O(t log n) in its class and in those above.
  void admit(RequestId id);

  // What is known of the cache has changed. The request must be inside.
  void update_work(RequestId id, PrefillWork work);
  // A tenant was given so much time of steps, at most what was measured: what the cache saved is
  // free. O(c).
  void charge(TenantId tenant, double ms);

  // Who is next, at most `limit`; fewer where those that follow might be one bypass too many. O(t +
  // limit * log n).
  std::vector<Candidate> candidates(TimePoint now, std::size_t limit);
  // How many come before it; none if it is not inside. Lists the whole queue, O(n log n): for the
  // one who asks why he waits, not for every step.
  std::optional<std::size_t> position(RequestId id, TimePoint now);
  // The one to give up first: of the lowest class the newest. Null if the queue is empty. O(t)
  const QueuedRequest* lowest() const;
  // Null if it is not inside. Valid until the queue changes.
  const QueuedRequest* find(RequestId id) const;

  std::size_t size() const { return entries_.size(); }
  std::size_t size(int priority) const;

 private:
  // Ascending in the order in which classes are served.
  using ClassKey = std::int64_t;
  ClassKey class_key(int priority) const {
    return options_.priority_order == PriorityOrder::kLowFirst ? priority : -ClassKey{priority};
  }
  std::vector<Candidate> list(TimePoint now, std::size_t limit, const PatienceLimits& patience);
  WaitingEntry& entry_of(RequestId id);
  PriorityClass& class_of(const WaitingEntry& entry);
  void forget(WaitingEntry& entry);

  const RequestQueueOptions options_;
  std::unordered_map<RequestId, WaitingEntry> entries_;
  std::map<ClassKey, PriorityClass> classes_;  // none empty
  std::uint64_t listings_ = 0;
};

}  // namespace tandem
