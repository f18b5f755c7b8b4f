#include "schedule/request_queue_shadow.h"

#include <algorithm>
#include <limits>
#include <set>

namespace tandem::testing {
namespace {

using std::chrono::milliseconds;

Arrival arrival_of(const QueuedRequest& request) { return {request.arrival, request.id}; }

}  // namespace

QueuedRequest QueueShadow::make(std::uint32_t a, std::uint32_t b) {
  QueuedRequest request = {.id = RequestId{++last_id_},
                           .tenant = TenantId{a % 3},
                           .weight = 1.0 + a % 3,
                           .priority = static_cast<int>(b % 2),
                           .arrival = now_,
                           .work = {.hit_ms = a % 50 * 1.0, .remaining_ms = b % 400 * 1.0},
                           .max_new_tokens = a % 100};
  if (a % 7 == 0) request.deadline = now_ + milliseconds(b % 100);
  return request;
}

void QueueShadow::insert(const QueuedRequest& request) {
  Waiting added = {.request = request};
  if (options_.policy != QueuePolicy::kAuto) {
    added.request.tenant = {};
    added.request.deadline.reset();
  }
  const QueuedRequest& as_queued = added.request;
  auto& accounts = accounts_[as_queued.priority];
  double least = std::numeric_limits<double>::infinity();
  bool is_waiting = false;
  for (const Waiting& one : waiting_) {
    if (one.request.priority != as_queued.priority) continue;
    least = std::min(least, accounts.at(one.request.tenant).served);
    is_waiting |= one.request.tenant == as_queued.tenant;
  }
  if (least == std::numeric_limits<double>::infinity()) least = 0;
  Account& account = accounts[as_queued.tenant];
  account.weight = as_queued.weight;
  if (!is_waiting) account.served = std::max(account.served, least);
  waiting_.push_back(added);
}

QueueShadow::Waiting QueueShadow::take(RequestId id) {
  const auto at =
      std::ranges::find_if(waiting_, [id](const Waiting& one) { return one.request.id == id; });
  const Waiting taken = *at;
  waiting_.erase(at);
  const int priority = taken.request.priority;
  if (std::ranges::none_of(
          waiting_, [priority](const Waiting& one) { return one.request.priority == priority; })) {
    accounts_.erase(priority);
  }
  return taken;
}

std::pair<TimePoint, RequestId> QueueShadow::oldest(int priority, TenantId tenant) const {
  std::pair<TimePoint, RequestId> found = {TimePoint::max(), {}};
  for (const Waiting& one : waiting_) {
    if (one.request.priority != priority || one.request.tenant != tenant) continue;
    found = std::min(found, {one.request.arrival, one.request.id});
  }
  return found;
}

bool QueueShadow::went_by_turn(const Waiting& other, const Waiting& admitted) const {
  const int priority = admitted.request.priority;
  const TenantId mine = admitted.request.tenant;
  const TenantId theirs = other.request.tenant;
  if (other.request.priority != priority || theirs == mine) {
    return false;
  }
  const auto& accounts = accounts_.at(priority);
  return std::pair(accounts.at(mine).turn(), oldest(priority, mine)) <
         std::pair(accounts.at(theirs).turn(), oldest(priority, theirs));
}

std::string QueueShadow::admit(RequestId id) {
  const auto at =
      std::ranges::find_if(waiting_, [id](const Waiting& one) { return one.request.id == id; });
  const Waiting admitted = *at;
  std::string wrong;
  for (Waiting& other : waiting_) {
    if (arrival_of(other.request) >= arrival_of(admitted.request) ||
        other.request.priority < admitted.request.priority || went_by_turn(other, admitted)) {
      continue;
    }
    if (++other.bypasses > options_.patience.max_bypass) {
      wrong =
          fmt::format("request {} was bypassed {} times", other.request.id.value, other.bypasses);
    }
    if (now_ - other.request.arrival > options_.patience.max_wait) {
      wrong = fmt::format("request {} waits for too long and was bypassed by {}",
                          other.request.id.value, id.value);
    }
  }
  const Waiting taken = take(id);
  if (accounts_.contains(taken.request.priority)) {
    accounts_[taken.request.priority][taken.request.tenant].expected +=
        taken.request.work.remaining_ms;
  }
  running_.push_back(taken.request);
  queue_.admit(id);
  return wrong;
}

// Admits some of a list and passes over others, as memory would have it.
std::string QueueShadow::admit_some(std::uint32_t a, std::uint32_t b) {
  std::string wrong;
  for (const Candidate& next : queue_.candidates(now_, 1 + a % 5)) {
    answers_.push_back(next.id.value * 2 + (next.blocks ? 1 : 0));
    if (b % 3 == 0) {
      if (next.blocks) break;
    } else if (const std::string found = admit(next.id); !found.empty()) {
      wrong = found;
    }
    b /= 3;
  }
  return wrong;
}

std::string QueueShadow::apply(const QueueOperation& operation) {
  const auto [kind, a, b] = operation;
  switch (kind) {
    case QueueOperation::Kind::kPush: {
      const QueuedRequest request = make(a, b);
      const std::size_t before = queue_.size();
      const auto sent_away = queue_.push(request);
      if (sent_away) answers_.push_back(sent_away->id.value);
      if (sent_away && sent_away->id != request.id) take(sent_away->id);
      if (!sent_away || sent_away->id != request.id) insert(request);
      // Retracted requests may have filled it beyond the bound.
      return queue_.size() > std::max(before, options_.max_queued) ? "the queue is too long" : "";
    }
    case QueueOperation::Kind::kAdmit:
      return admit_some(a, b);
    case QueueOperation::Kind::kRemove: {
      if (waiting_.empty()) return "";
      const RequestId id = waiting_[a % waiting_.size()].request.id;
      take(id);
      return queue_.remove(id) ? "" : "a waiting request could not be removed";
    }
    case QueueOperation::Kind::kReinsert: {
      if (running_.empty()) return "";
      const auto at = running_.begin() + a % static_cast<std::ptrdiff_t>(running_.size());
      insert(*at);
      queue_.reinsert(*at);
      running_.erase(at);
      return "";
    }
    case QueueOperation::Kind::kUpdate: {
      if (waiting_.empty()) return "";
      QueuedRequest& request = waiting_[a % waiting_.size()].request;
      request.work = {.hit_ms = b % 100 * 1.0, .remaining_ms = b % 77 * 1.0};
      queue_.update_work(request.id, request.work);
      return "";
    }
    case QueueOperation::Kind::kCharge: {
      const TenantId tenant{a % 3};
      for (auto& [priority, accounts] : accounts_) {
        const auto found = accounts.find(tenant);
        if (found == accounts.end() || options_.policy != QueuePolicy::kAuto) continue;
        found->second.served += (b % 300) / found->second.weight;
        found->second.expected = 0;
      }
      queue_.charge(tenant, b % 300);
      return "";
    }
    case QueueOperation::Kind::kWait:
      now_ += milliseconds(a % 40);
      return "";
  }
  return "";
}

std::string QueueShadow::check_contents() {
  if (queue_.size() != waiting_.size()) return "the queue has another size";
  std::map<int, std::size_t> sizes;
  std::set<std::size_t> positions;
  for (const Waiting& one : waiting_) {
    ++sizes[one.request.priority];
    const QueuedRequest* found = queue_.find(one.request.id);
    if (found == nullptr || found->arrival != one.request.arrival) return "a request is lost";
    const auto position = queue_.position(one.request.id, now_);
    if (!position || *position >= waiting_.size()) return "a request has no position";
    positions.insert(*position);
  }
  if (positions.size() != waiting_.size()) return "two requests have the same position";
  for (const auto& [priority, size] : sizes) {
    if (queue_.size(priority) != size) return "a class has another size";
  }
  return "";
}

}  // namespace tandem::testing
