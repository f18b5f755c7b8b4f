// A waiting queue as plain lists, to compare RequestQueue with. For tests.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schedule/request_queue.h"

namespace tandem::testing {

// What to do next; the numbers choose among whatever is possible at the time.
struct QueueOperation {
  enum class Kind { kPush, kAdmit, kRemove, kReinsert, kUpdate, kCharge, kWait };
  Kind kind;
  std::uint32_t a;
  std::uint32_t b;
};

// Applies operations to a queue and, by brute force, to a list of what must be in it. Returns the
// first disagreement, empty if there is none.
class QueueShadow {
 public:
  explicit QueueShadow(RequestQueueOptions options) : options_(options), queue_(options) {}

  std::string apply(const QueueOperation& operation);
  // Every request is inside exactly once, and nothing else.
  std::string check_contents();

  // Everything that the queue ever answered.
  const std::vector<std::uint64_t>& answers() const { return answers_; }
  RequestQueue& queue() { return queue_; }
  TimePoint now() const { return now_; }

 private:
  struct Waiting {
    QueuedRequest request;
    std::int64_t bypasses = 0;
  };
  struct Account {
    double served = 0;
    double expected = 0;
    double weight = 1;
    double turn() const { return served + expected / weight; }
  };

  QueuedRequest make(std::uint32_t a, std::uint32_t b);
  void insert(const QueuedRequest& request);
  Waiting take(RequestId id);
  std::string admit_some(std::uint32_t a, std::uint32_t b);
  std::string admit(RequestId id);
  bool went_by_turn(const Waiting& other, const Waiting& admitted) const;
  // Time and id of the oldest of a tenant in a class.
  std::pair<TimePoint, RequestId> oldest(int priority, TenantId tenant) const;

  const RequestQueueOptions options_;
  RequestQueue queue_;
  TimePoint now_ = {};
  std::uint64_t last_id_ = 0;
  std::vector<Waiting> waiting_;
  std::vector<QueuedRequest> running_;
  std::map<int, std::map<TenantId, Account>> accounts_;  // by priority, while any of it waits
  std::vector<std::uint64_t> answers_;
};

}  // namespace tandem::testing
