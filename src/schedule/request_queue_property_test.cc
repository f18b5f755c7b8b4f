// Random arrivals, admissions and refusals on small queues, with a check of every promise.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <ostream>

#include "base/philox.h"
#include "schedule/request_queue_shadow.h"

namespace tandem::testing {

// How RapidCheck prints a counterexample.
void showValue(const QueueOperation& operation, std::ostream& out) {
  constexpr std::array kNames = {"push", "admit", "remove", "reinsert", "update", "charge", "wait"};
  out << kNames[static_cast<std::size_t>(operation.kind)] << ' ' << operation.a << ' '
      << operation.b;
}
void showValue(QueuePolicy policy, std::ostream& out) { out << static_cast<int>(policy); }
void showValue(WhenFull when, std::ostream& out) { out << static_cast<int>(when); }

namespace {

rc::Gen<std::uint32_t> any_number() {
  return rc::gen::resize(100, rc::gen::inRange<std::uint32_t>(0, 100'000));
}

std::vector<QueueOperation> any_operations() {
  using Kind = QueueOperation::Kind;
  const auto operation = rc::gen::build<QueueOperation>(
      rc::gen::set(&QueueOperation::kind, rc::gen::weightedElement<Kind>({{8, Kind::kPush},
                                                                          {4, Kind::kAdmit},
                                                                          {1, Kind::kRemove},
                                                                          {1, Kind::kReinsert},
                                                                          {2, Kind::kUpdate},
                                                                          {2, Kind::kCharge},
                                                                          {2, Kind::kWait}})),
      rc::gen::set(&QueueOperation::a, any_number()),
      rc::gen::set(&QueueOperation::b, any_number()));
  return *rc::gen::scale(4.0, rc::gen::container<std::vector<QueueOperation>>(operation));
}

QueuePolicy any_policy() {
  return *rc::gen::weightedElement<QueuePolicy>({{6, QueuePolicy::kAuto},
                                                 {1, QueuePolicy::kFirstCome},
                                                 {1, QueuePolicy::kLongestPrefix},
                                                 {1, QueuePolicy::kResponseRatio},
                                                 {1, QueuePolicy::kShortestPrefill},
                                                 {1, QueuePolicy::kLongestOutput},
                                                 {1, QueuePolicy::kRandom}});
}

RequestQueueOptions any_options() {
  return {.policy = any_policy(),
          .max_queued = *rc::gen::element<std::size_t>(5, 40, 4096),
          .when_full = *rc::gen::element(WhenFull::kRefuseNew, WhenFull::kDropLower),
          .patience = {.max_bypass = *rc::gen::element<std::int64_t>(0, 1, 3, 10, 256),
                       .max_wait = std::chrono::milliseconds(
                           *rc::gen::element<std::int64_t>(0, 30, 200, 30'000))}};
}

RC_GTEST_PROP(RequestQueuePropertyTest, nobody_is_bypassed_too_often_or_after_too_long, ()) {
  QueueShadow shadow(any_options());
  for (const QueueOperation& operation : any_operations()) {
    const std::string wrong = shadow.apply(operation);
    if (!wrong.empty()) RC_FAIL(wrong);
  }
}

RC_GTEST_PROP(RequestQueuePropertyTest, a_request_is_inside_exactly_once_until_it_is_taken, ()) {
  QueueShadow shadow(any_options());
  for (const QueueOperation& operation : any_operations()) {
    shadow.apply(operation);
    if (operation.a % 8 != 0) continue;
    const std::string wrong = shadow.check_contents();
    if (!wrong.empty()) RC_FAIL(wrong);
  }
  const std::string wrong = shadow.check_contents();
  if (!wrong.empty()) RC_FAIL(wrong);
}

RC_GTEST_PROP(RequestQueuePropertyTest, the_same_calls_get_the_same_answers, ()) {
  const RequestQueueOptions options = any_options();
  const auto operations = any_operations();
  QueueShadow first(options);
  QueueShadow second(options);
  for (const QueueOperation& operation : operations) first.apply(operation);
  for (const QueueOperation& operation : operations) second.apply(operation);
  RC_ASSERT(first.answers() == second.answers());
}

// The order within a tenant by comparing everything with everything.
RC_GTEST_PROP(RequestQueuePropertyTest, one_tenants_order_is_by_score, ()) {
  const auto policy = *rc::gen::element(QueuePolicy::kAuto, QueuePolicy::kResponseRatio);
  RequestQueue queue({.policy = policy});
  const auto drawn = *rc::gen::container<std::vector<std::pair<std::uint32_t, std::uint32_t>>>(
      rc::gen::pair(any_number(), any_number()));
  const TimePoint now = TimePoint{} + std::chrono::milliseconds(1000);
  std::vector<std::pair<double, std::int64_t>> wanted;  // score, less the id: ties go by arrival
  for (const auto& [a, b] : drawn) {
    const auto number = static_cast<std::uint64_t>(wanted.size());
    const QueuedRequest request = {.id = RequestId{number},
                                   .arrival = TimePoint{} + std::chrono::milliseconds(number),
                                   .work = {.hit_ms = a % 100 * 1.0, .remaining_ms = b / 100.0}};
    queue.push(request);
    const double wait_ms = milliseconds(request.arrival, now);
    const double rounded_ms =
        std::exp2(std::ceil(8 * std::log2(std::max(1.0, request.work.remaining_ms))) / 8);
    const double saved_ms = policy == QueuePolicy::kAuto ? request.work.hit_ms : 0;
    wanted.emplace_back((saved_ms + wait_ms) / rounded_ms, -static_cast<std::int64_t>(number));
  }
  std::ranges::sort(wanted, std::greater<>());
  const auto order = queue.candidates(now, wanted.size());
  RC_ASSERT(order.size() == std::min<std::size_t>(wanted.size(), 256));
  for (std::size_t i = 0; i < order.size(); ++i) {
    RC_ASSERT(order[i].id.value == static_cast<std::uint64_t>(-wanted[i].second));
  }
}

// --- Shares -------------------------------------------------------------------------------------

// Tenants that always have requests waiting, on a machine that computes a few at a time in steps.
class Backlog {
 public:
  static constexpr double kStepMs = 50;
  static constexpr double kRequestMs = 50;  // at most

  Backlog(std::vector<double> weights, std::size_t slots, std::uint64_t seed,
          std::chrono::milliseconds waited)
      : weights_(std::move(weights)), slots_(slots), random_(seed), served_(weights_.size()) {
    for (std::size_t tenant = 0; tenant < weights_.size(); ++tenant) {
      for (int i = 0; i < 30; ++i) push(tenant);
    }
    now_ += waited;
  }

  void step() {
    while (running_.size() < slots_) {
      for (const Candidate& next : queue_.candidates(now_, slots_ - running_.size()))
        admit(next.id);
    }
    double left_ms = kStepMs;
    while (left_ms > 0 && !running_.empty()) {
      Running& first = running_.front();
      const double ms = std::min(left_ms, first.ms);
      first.ms -= ms;
      left_ms -= ms;
      served_[first.tenant] += ms;
      queue_.charge(TenantId{first.tenant}, ms);
      if (first.ms <= 0) running_.erase(running_.begin());
    }
    now_ += std::chrono::milliseconds(static_cast<std::int64_t>(kStepMs));
  }

  const std::vector<double>& served_ms() const { return served_; }
  double share(std::size_t tenant) const {
    double sum = 0;
    for (const double weight : weights_) sum += weight;
    return weights_[tenant] / sum;
  }

 private:
  struct Running {
    std::size_t tenant;
    double ms;
  };

  double between(double low, double high) {
    return low + (high - low) * philox_uniform(random_, ++drawn_);
  }
  void push(std::size_t tenant) {
    const double ms = between(1, kRequestMs);
    const RequestId id{++last_id_};
    cost_ms_[id] = ms;
    // An estimate that may be wrong by a factor of two, for one tenant always in one direction.
    const double error = tenant == 0 ? 2 : between(0.5, 2);
    queue_.push({.id = id,
                 .tenant = TenantId{tenant},
                 .weight = weights_[tenant],
                 .arrival = now_,
                 .work = {.hit_ms = between(0, 500), .remaining_ms = ms * error}});
  }
  void admit(RequestId id) {
    const auto tenant = static_cast<std::size_t>(queue_.find(id)->tenant.value);
    queue_.admit(id);
    running_.push_back({tenant, cost_ms_.at(id)});
    cost_ms_.erase(id);
    push(tenant);
  }

  const std::vector<double> weights_;
  const std::size_t slots_;
  const std::uint64_t random_;
  std::uint64_t drawn_ = 0;
  std::uint64_t last_id_ = 0;
  RequestQueue queue_{{}};
  TimePoint now_ = {};
  std::map<RequestId, double> cost_ms_;
  std::vector<Running> running_;
  std::vector<double> served_;
};

// Over windows of 10 s and more, also when all have waited for longer than max_wait. What may be
// under way at once is worth a step.
RC_GTEST_PROP(RequestQueuePropertyTest, a_backlogged_tenant_gets_its_share, ()) {
  const auto weights = *rc::gen::resize(
      5, rc::gen::nonEmpty(
             rc::gen::container<std::vector<double>>(rc::gen::element(0.5, 1.0, 2.0, 3.0, 8.0))));
  const auto slots = *rc::gen::element<std::size_t>(2, 3, 4);
  const auto waited_ms = *rc::gen::element(0, 60'000);
  Backlog backlog(weights, slots, *any_number(), std::chrono::milliseconds(waited_ms));
  constexpr int kSteps = 300;
  std::vector<std::vector<double>> history = {backlog.served_ms()};
  for (int step = 0; step < kSteps; ++step) {
    backlog.step();
    history.push_back(backlog.served_ms());
  }
  const auto window = *rc::gen::element<std::size_t>(200, 300);  // steps
  const double step_ms = static_cast<double>(slots) * Backlog::kRequestMs;
  for (std::size_t end = window; end < history.size(); end += 10) {
    std::vector<double> got_ms = history[end];
    for (std::size_t i = 0; i < got_ms.size(); ++i) got_ms[i] -= history[end - window][i];
    const double all_ms = std::accumulate(got_ms.begin(), got_ms.end(), 0.0);
    for (std::size_t tenant = 0; tenant < weights.size(); ++tenant) {
      const double due_ms = backlog.share(tenant) * all_ms;
      RC_ASSERT(std::abs(got_ms[tenant] - due_ms) <= 0.05 * due_ms + step_ms);
    }
  }
}

}  // namespace
}  // namespace tandem::testing
