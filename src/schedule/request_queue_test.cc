#include "schedule/request_queue.h"

#include <gtest/gtest.h>

#include <limits>

#include "schedule/queue_policy.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;

TimePoint at(int ms) { return TimePoint{} + milliseconds(ms); }

QueuedRequest request(std::uint64_t id, int arrival_ms = 0, PrefillWork work = {0, 100}) {
  return {.id = RequestId{id}, .arrival = at(arrival_ms), .work = work};
}

QueuedRequest of_tenant(std::uint64_t tenant, QueuedRequest of, double weight = 1) {
  of.tenant = TenantId{tenant};
  of.weight = weight;
  return of;
}

QueuedRequest with_priority(int priority, QueuedRequest of) {
  of.priority = priority;
  return of;
}

QueuedRequest with_deadline(int ms, QueuedRequest of) {
  of.deadline = at(ms);
  return of;
}

using Ids = std::vector<std::uint64_t>;

Ids order(RequestQueue& queue, TimePoint now = at(1000), std::size_t limit = 100) {
  Ids ids;
  for (const Candidate& candidate : queue.candidates(now, limit)) ids.push_back(candidate.id.value);
  return ids;
}

Ids order_under(QueuePolicy policy, std::initializer_list<QueuedRequest> requests) {
  RequestQueue queue({.policy = policy});
  for (const QueuedRequest& one : requests) queue.push(one);
  return order(queue);
}

TEST(RequestQueueTest, priority_comes_before_everything_else) {
  for (const auto policy : {QueuePolicy::kAuto, QueuePolicy::kFirstCome, QueuePolicy::kRandom}) {
    EXPECT_EQ(order_under(policy, {with_priority(0, with_deadline(1, request(1, 0, {900, 1}))),
                                   with_priority(2, request(2, 5, {0, 1000})),
                                   with_priority(-1, request(3)), with_priority(1, request(4))}),
              (Ids{2, 4, 1, 3}));
  }
}

TEST(RequestQueueTest, a_flag_serves_low_priorities_first) {
  RequestQueue queue({.priority_order = PriorityOrder::kLowFirst});
  queue.push(with_priority(1, request(1)));
  queue.push(with_priority(std::numeric_limits<int>::min(), request(2)));
  EXPECT_EQ(order(queue), (Ids{2, 1}));
  EXPECT_EQ(queue.lowest()->id, RequestId{1});
}

TEST(RequestQueueTest, deadlines_go_ahead_of_tenants_the_earliest_first) {
  EXPECT_EQ(order_under(QueuePolicy::kAuto,
                        {request(1, 0, {900, 10}), of_tenant(1, with_deadline(900, request(2))),
                         of_tenant(2, with_deadline(800, request(3)))}),
            (Ids{3, 2, 1}));
}

TEST(RequestQueueTest, what_the_cache_saves_counts_against_what_is_left) {
  EXPECT_EQ(order_under(QueuePolicy::kAuto, {request(1, 0, {0, 1000}), request(2, 0, {500, 1000}),
                                             request(3, 0, {500, 500})}),
            (Ids{3, 2, 1}));
}

TEST(RequestQueueTest, waiting_makes_up_for_what_the_cache_does_not_save) {
  RequestQueue queue({});
  queue.push(request(1, 0, {0, 1000}));
  queue.push(request(2, 4000, {3000, 1000}));
  EXPECT_EQ(order(queue, at(5000)), (Ids{1, 2}));
  queue.update_work(RequestId{2}, {4500, 1000});
  EXPECT_EQ(order(queue, at(5000)), (Ids{2, 1}));
}

TEST(RequestQueueTest, short_requests_gain_faster_by_waiting) {
  RequestQueue queue({});
  queue.push(request(1, 0, {800, 1000}));
  queue.push(request(2, 0, {0, 100}));
  EXPECT_EQ(order(queue, at(50)), (Ids{1, 2}));   // 0.85 against 0.5
  EXPECT_EQ(order(queue, at(500)), (Ids{2, 1}));  // 1.3 against 5
}

TEST(RequestQueueTest, the_other_policies_do_what_their_names_say) {
  auto longer = request(1, 0, {10, 300});
  longer.max_new_tokens = 500;
  auto warmer = request(2, 200, {50, 900});
  warmer.max_new_tokens = 100;
  auto shorter = request(3, 400, {0, 150});
  shorter.max_new_tokens = 300;
  const auto under = [&](QueuePolicy policy) {
    return order_under(policy, {shorter, warmer, longer});
  };
  EXPECT_EQ(under(QueuePolicy::kFirstCome), (Ids{1, 2, 3}));
  EXPECT_EQ(under(QueuePolicy::kLongestPrefix), (Ids{2, 1, 3}));
  EXPECT_EQ(under(QueuePolicy::kShortestPrefill), (Ids{3, 1, 2}));
  EXPECT_EQ(under(QueuePolicy::kLongestOutput), (Ids{1, 3, 2}));
  EXPECT_EQ(under(QueuePolicy::kResponseRatio), (Ids{3, 1, 2}));  // 4, 3.3 and 0.9
}

TEST(RequestQueueTest, random_depends_on_the_seed_alone) {
  const auto drawn = [](std::uint64_t seed) {
    RequestQueue queue({.policy = QueuePolicy::kRandom, .seed = seed});
    for (std::uint64_t id = 0; id < 20; ++id) queue.push(request(id, static_cast<int>(id)));
    return order(queue);
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(RequestQueueTest, tenants_take_turns_within_one_list) {
  RequestQueue queue({});
  for (std::uint64_t id = 1; id <= 4; ++id) queue.push(of_tenant(1, request(id, 0)));
  for (std::uint64_t id = 11; id <= 12; ++id) queue.push(of_tenant(2, request(id, 1)));
  EXPECT_EQ(order(queue), (Ids{1, 11, 2, 12, 3, 4}));
}

TEST(RequestQueueTest, a_tenant_of_twice_the_weight_gets_two_turns) {
  RequestQueue queue({});
  for (std::uint64_t id = 1; id <= 4; ++id) queue.push(of_tenant(1, request(id, 0), 2));
  for (std::uint64_t id = 11; id <= 12; ++id) queue.push(of_tenant(2, request(id, 1), 1));
  EXPECT_EQ(order(queue), (Ids{1, 11, 2, 3, 12, 4}));
}

TEST(RequestQueueTest, measured_service_replaces_what_was_expected) {
  RequestQueue queue({});
  for (std::uint64_t id = 1; id <= 3; ++id) queue.push(of_tenant(1, request(id, 0)));
  for (std::uint64_t id = 11; id <= 13; ++id) queue.push(of_tenant(2, request(id, 1)));
  queue.admit(RequestId{1});
  EXPECT_EQ(order(queue, at(10), 1), (Ids{11}));
  queue.admit(RequestId{11});
  queue.charge(TenantId{1}, 150);
  queue.charge(TenantId{2}, 20);  // most was in the cache after all
  EXPECT_EQ(order(queue, at(10), 3), (Ids{12, 13, 2}));
}

TEST(RequestQueueTest, a_tenant_that_was_idle_has_saved_up_nothing) {
  RequestQueue queue({});
  for (std::uint64_t id = 1; id <= 4; ++id) queue.push(of_tenant(1, request(id, 0)));
  queue.charge(TenantId{1}, 60'000);
  for (std::uint64_t id = 11; id <= 14; ++id) queue.push(of_tenant(2, request(id, 1)));
  EXPECT_EQ(order(queue, at(10), 4), (Ids{1, 11, 2, 12}));
}

TEST(RequestQueueTest, a_tenant_cannot_shed_its_debt_by_leaving_for_a_moment) {
  RequestQueue queue({});
  queue.push(of_tenant(1, request(1)));
  queue.push(of_tenant(2, request(11)));
  queue.push(of_tenant(2, request(12)));
  queue.charge(TenantId{1}, 1000);
  queue.remove(RequestId{1});
  queue.push(of_tenant(1, request(2, 0, {5000, 1})));
  EXPECT_EQ(order(queue), (Ids{11, 12, 2}));
}

TEST(RequestQueueTest, a_request_bypassed_too_often_is_next_and_blocks) {
  RequestQueue queue({.patience = {.max_bypass = 2}});
  queue.push(request(1, 0, {0, 1000}));
  for (std::uint64_t id = 2; id <= 5; ++id) queue.push(request(id, 1, {500, 10}));
  EXPECT_EQ(order(queue, at(2)), (Ids{2, 3}));  // and no more in this list
  queue.admit(RequestId{2});
  queue.admit(RequestId{3});
  const auto next = queue.candidates(at(2), 2);
  EXPECT_EQ(next[0].id, RequestId{1});
  EXPECT_TRUE(next[0].blocks);
}

TEST(RequestQueueTest, bypasses_are_forgotten_with_those_who_were_bypassed) {
  RequestQueue queue({.patience = {.max_bypass = 2}});
  for (std::uint64_t id = 1; id <= 6; ++id) queue.push(request(id, static_cast<int>(id)));
  queue.admit(RequestId{3});  // ahead of 1 and 2
  queue.remove(RequestId{2});
  queue.remove(RequestId{1});
  queue.admit(RequestId{5});  // ahead of 4
  EXPECT_FALSE(queue.candidates(at(7), 1)[0].blocks);
  queue.admit(RequestId{6});
  EXPECT_TRUE(queue.candidates(at(7), 1)[0].blocks);
}

TEST(RequestQueueTest, a_request_that_waits_too_long_is_next_and_blocks) {
  RequestQueue queue({});
  queue.push(request(1, 0, {0, 1e9}));
  queue.push(with_deadline(30'500, request(2, 29'000, {500, 10})));
  queue.push(request(3, 29'000, {500, 10}));
  EXPECT_EQ(order(queue, at(30'000)), (Ids{2, 3, 1}));
  const auto next = queue.candidates(at(30'001), 3);
  EXPECT_EQ(order(queue, at(30'001)), (Ids{1, 2, 3}));
  EXPECT_TRUE(next[0].blocks);
  EXPECT_FALSE(next[1].blocks);
}

TEST(RequestQueueTest, lower_classes_going_ahead_count_as_bypasses) {
  RequestQueue queue({.patience = {.max_bypass = 1}});
  queue.push(with_priority(1, request(1)));
  queue.push(with_priority(0, request(2, 1)));
  queue.push(with_priority(0, request(3, 1)));
  EXPECT_FALSE(queue.candidates(at(2), 1)[0].blocks);
  queue.admit(RequestId{2});
  EXPECT_TRUE(queue.candidates(at(2), 1)[0].blocks);
}

TEST(RequestQueueTest, higher_classes_going_ahead_do_not_count) {
  RequestQueue queue({.patience = {.max_bypass = 1}});
  queue.push(with_priority(0, request(1)));
  for (std::uint64_t id = 2; id <= 9; ++id) queue.push(with_priority(1, request(id, 1)));
  for (std::uint64_t id = 2; id <= 8; ++id) queue.admit(RequestId{id});
  EXPECT_EQ(order(queue, at(2)), (Ids{9}));  // 1 behind it would be one bypass of 9
  queue.admit(RequestId{9});
  EXPECT_FALSE(queue.candidates(at(2), 1)[0].blocks);
}

TEST(RequestQueueTest, a_tenant_past_its_share_gains_nothing_by_waiting) {
  RequestQueue queue({.patience = {.max_bypass = 1}});
  queue.push(of_tenant(1, request(1)));
  for (std::uint64_t id = 11; id <= 14; ++id) queue.push(of_tenant(2, request(id, 1, {0, 10})));
  queue.charge(TenantId{1}, 10'000);
  EXPECT_EQ(order(queue, at(60'000)), (Ids{11, 12, 13, 14, 1}));
  queue.admit(RequestId{11});
  queue.admit(RequestId{12});
  EXPECT_EQ(order(queue, at(2)), (Ids{13}));
}

TEST(RequestQueueTest, a_retracted_request_has_its_old_place) {
  RequestQueue queue({.policy = QueuePolicy::kFirstCome, .max_queued = 3});
  for (std::uint64_t id = 1; id <= 3; ++id) queue.push(request(id, static_cast<int>(id)));
  queue.admit(RequestId{1});
  queue.push(request(4, 4));
  queue.reinsert(request(1, 1));  // beyond the bound
  EXPECT_EQ(order(queue), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(queue.lowest()->id, RequestId{4});
}

TEST(RequestQueueTest, position_tells_how_many_come_before) {
  RequestQueue queue({.patience = {.max_bypass = 1}});
  for (std::uint64_t id = 1; id <= 9; ++id)
    queue.push(request(id, 0, {1.0 * static_cast<double>(id), 10}));
  EXPECT_EQ(queue.position(RequestId{9}, at(1)), 0u);
  EXPECT_EQ(queue.position(RequestId{1}, at(1)), 8u);
  EXPECT_EQ(queue.position(RequestId{10}, at(1)), std::nullopt);
}

TEST(RequestQueueTest, a_full_queue_refuses_the_new_request) {
  RequestQueue queue({.max_queued = 1});
  EXPECT_EQ(queue.push(request(1)), std::nullopt);
  EXPECT_EQ(queue.push(with_priority(9, request(2)))->id, RequestId{2});
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.find(RequestId{2}), nullptr);
}

TEST(RequestQueueTest, a_full_queue_may_drop_the_newest_of_a_lower_class) {
  RequestQueue queue({.max_queued = 3, .when_full = WhenFull::kDropLower});
  queue.push(with_priority(0, request(1, 0)));
  queue.push(with_priority(0, of_tenant(1, request(2, 5))));
  queue.push(with_priority(1, request(3, 9)));
  EXPECT_EQ(queue.push(with_priority(0, request(4, 9)))->id, RequestId{4});
  EXPECT_EQ(queue.push(with_priority(1, request(5, 9)))->id, RequestId{2});
  EXPECT_EQ(order(queue), (Ids{3, 5, 1}));
}

TEST(RequestQueueTest, a_queue_without_room_refuses_everything) {
  RequestQueue queue({.max_queued = 0, .when_full = WhenFull::kDropLower});
  EXPECT_EQ(queue.push(request(1))->id, RequestId{1});
}

TEST(RequestQueueTest, counts_by_class) {
  RequestQueue queue({});
  queue.push(with_priority(1, request(1)));
  queue.push(with_priority(1, of_tenant(3, request(2))));
  queue.push(with_priority(7, request(3)));
  EXPECT_EQ(queue.size(1), 2u);
  EXPECT_EQ(queue.size(0), 0u);
  EXPECT_TRUE(queue.remove(RequestId{1}));
  EXPECT_FALSE(queue.remove(RequestId{1}));
  EXPECT_EQ(queue.size(1), 1u);
  EXPECT_EQ(queue.size(), 2u);
}

TEST(QueuePolicyTest, names_are_those_of_sglang) {
  EXPECT_EQ(parse_queue_policy("auto"), QueuePolicy::kAuto);
  EXPECT_EQ(parse_queue_policy("lof"), QueuePolicy::kLongestOutput);
  EXPECT_EQ(parse_queue_policy("dfs-weight"), QueuePolicy::kLongestPrefix);
}

TEST(QueuePolicyTest, an_unknown_name_is_answered_with_the_known_ones) {
  const auto policy = parse_queue_policy("FCFS");
  ASSERT_FALSE(policy.has_value());
  EXPECT_EQ(policy.error().message,
            "unknown schedule policy 'FCFS'; known are auto, fcfs, lpm, dfs-weight, hrrn, "
            "shortest-prefill-first, lof, random");
}

}  // namespace
}  // namespace tandem
