#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernel_testing.h"

namespace tandem::testing {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Routing {
  std::int64_t top_k = 0;
  std::int64_t groups = 1;
  std::int64_t top_groups = 1;
  bool renormalize = true;
  bool bias_in_weights = false;
  float scaling = 1;
};

struct Choice {
  std::vector<std::int32_t> ids;
  GuardedVector<float> weights;
};

Choice route(const KernelSet& kernels, const Rows& logits, const GuardedVector<float>& bias,
             const Routing& routing, ThreadTeam& team) {
  const auto size = static_cast<std::size_t>(logits.rows() * routing.top_k);
  Choice out{std::vector<std::int32_t>(size, -1), GuardedVector<float>(size, NAN)};
  kernels.router(
      {logits, bias.data(), routing.top_k, routing.groups, routing.top_groups, routing.renormalize,
       routing.bias_in_weights, routing.scaling, out.ids.data(), out.weights.data()},
      team);
  return out;
}

Rows one_row(const GuardedVector<float>& logits) {
  Rows out(1, static_cast<std::int64_t>(logits.size()));
  for (std::int64_t e = 0; e < out.columns(); ++e) out.at(0, e) = logits[e];
  return out;
}

using Ids = std::vector<std::int32_t>;
using RouterTest = KernelTest;
TANDEM_FOR_ALL_KERNELS(RouterTest);

// The k largest of score + bias, by sorting. Empty if the last chosen and the first refused are
// closer than fp32 can tell.
Ids best_experts(const Rows& logits, std::int64_t t, const GuardedVector<float>& bias,
                 std::int64_t top_k) {
  std::vector<std::pair<double, std::int32_t>> order;
  for (std::int64_t e = 0; e < logits.columns(); ++e) {
    order.emplace_back(-(sigmoid(logits.at(t, e)) + bias[e]), static_cast<std::int32_t>(e));
  }
  std::sort(order.begin(), order.end());
  if (top_k < logits.columns() && order[top_k].first - order[top_k - 1].first < 1e-6) return {};
  Ids ids;
  for (std::int64_t i = 0; i < top_k; ++i) ids.push_back(order[i].second);
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST_P(RouterTest, chooses_by_biased_score_and_weighs_by_score) {
  for (std::int64_t experts : {1, 2, 7, 8, 64, 257, 896}) {
    for (bool renormalize : {false, true}) {
      for (bool bias_in_weights : {false, true}) {
        const Routing routing = {.top_k = std::min<std::int64_t>(experts, random_.integer(1, 16)),
                                 .renormalize = renormalize,
                                 .bias_in_weights = bias_in_weights,
                                 .scaling = 2.446f};
        const Rows logits = Rows::random(random_, 5, experts, 2);
        const GuardedVector<float> bias = random_.vector(experts, 0.1);
        const Choice got = route(kernels(), logits, bias, routing, team_);
        for (std::int64_t t = 0; t < 5; ++t) {
          const Ids want = best_experts(logits, t, bias, routing.top_k);
          if (want.empty()) continue;
          const auto first = got.ids.begin() + t * routing.top_k;
          ASSERT_EQ(Ids(first, first + routing.top_k), want) << experts << " experts";
          std::vector<double> weight;
          double sum = 0, magnitude = 0;
          for (std::int32_t e : want) {
            weight.push_back(sigmoid(logits.at(t, e)) + (bias_in_weights ? bias[e] : 0));
            sum += weight.back();
            magnitude += std::fabs(weight.back()) + (bias_in_weights ? std::fabs(bias[e]) : 0);
          }
          const double divisor = renormalize ? sum + 1e-20 : 1;
          for (std::int64_t i = 0; i < routing.top_k; ++i) {
            const double expected = weight[i] / divisor * 2.446f;
            // Biased scores may cancel, alone and in their sum.
            const double relative = 32 * kUnit * (renormalize ? magnitude / std::fabs(sum) : 1);
            ASSERT_NEAR(got.weights[t * routing.top_k + i], expected,
                        relative * (std::fabs(expected) + 1 / std::fabs(divisor)));
          }
        }
      }
    }
  }
}

TEST_P(RouterTest, the_lowest_id_wins_a_tie_and_ids_ascend) {
  const Rows logits = one_row({0, 1, 2, 1, 2, 1, 0, 1});
  const GuardedVector<float> bias(8, 0.0f);
  EXPECT_EQ(route(kernels(), logits, bias, {.top_k = 3}, team_).ids, Ids({1, 2, 4}));
  EXPECT_EQ(route(kernels(), logits, bias, {.top_k = 5}, team_).ids, Ids({1, 2, 3, 4, 5}));
  const Rows equal = one_row(GuardedVector<float>(40, 0.5f));
  EXPECT_EQ(route(kernels(), equal, GuardedVector<float>(40, 0.0f), {.top_k = 4}, team_).ids,
            Ids({0, 1, 2, 3}));
}

TEST_P(RouterTest, the_bias_moves_the_choice_and_not_the_weight) {
  const Rows logits = one_row({3, 2, 1, 0});
  const Choice plain = route(kernels(), logits, {0, 0, 0, 0}, {.top_k = 2}, team_);
  const Choice biased = route(kernels(), logits, {0, 0, 0, 5}, {.top_k = 2}, team_);
  EXPECT_EQ(plain.ids, Ids({0, 1}));
  EXPECT_EQ(biased.ids, Ids({0, 3}));
  const double sum = sigmoid(3) + sigmoid(0);
  EXPECT_NEAR(biased.weights[0], sigmoid(3) / sum, 1e-6);
  EXPECT_NEAR(biased.weights[1], sigmoid(0) / sum, 1e-6);
}

TEST_P(RouterTest, only_the_groups_with_the_best_two_experts_are_open) {
  // Group 0 has the single best expert; group 1 the best pair; group 2 three middling ones.
  const Rows logits = one_row({4, -9, -9, -9, 2, 2.5f, -9, -9, 1, 1, 1, -9});
  const GuardedVector<float> bias(12, 0.0f);
  const Routing one_open = {.top_k = 3, .groups = 3, .top_groups = 1};
  const Routing two_open = {.top_k = 3, .groups = 3, .top_groups = 2};
  EXPECT_EQ(route(kernels(), logits, bias, one_open, team_).ids, Ids({4, 5, 6}));
  EXPECT_EQ(route(kernels(), logits, bias, two_open, team_).ids, Ids({4, 5, 8}));
  // The bias counts in the groups' scores, too.
  GuardedVector<float> tilted = bias;
  tilted[1] = 3;
  EXPECT_EQ(route(kernels(), logits, tilted, {.top_k = 2, .groups = 3}, team_).ids, Ids({0, 1}));
}

TEST_P(RouterTest, groups_of_one_expert_count_that_expert) {
  const Rows logits = one_row({0, 3, 1, 2});
  const Routing routing = {.top_k = 2, .groups = 4, .top_groups = 2};
  EXPECT_EQ(route(kernels(), logits, GuardedVector<float>(4), routing, team_).ids, Ids({1, 3}));
}

TEST_P(RouterTest, the_first_group_wins_a_tie) {
  const Rows logits = one_row({1, 0, 2, 2, 2, 2, 0, 1});
  const Routing routing = {.top_k = 2, .groups = 4, .top_groups = 1};
  EXPECT_EQ(route(kernels(), logits, GuardedVector<float>(8), routing, team_).ids, Ids({2, 3}));
}

// Whatever a broken row holds, its ids must index the expert table.
TEST_P(RouterTest, nan_logits_give_distinct_ids_within_range) {
  for (std::int64_t groups : {1, 4}) {
    Rows logits = Rows::random(random_, 3, 16);
    for (std::int64_t e = 0; e < 16; ++e) logits.at(0, e) = NAN;
    for (std::int64_t e = 3; e < 16; e += 3) logits.at(1, e) = NAN;
    logits.at(2, 5) = std::numeric_limits<float>::infinity();
    const Routing routing = {.top_k = 6, .groups = groups, .top_groups = 2};
    const Choice got = route(kernels(), logits, GuardedVector<float>(16), routing, team_);
    for (std::int64_t t = 0; t < 3; ++t) {
      for (std::int64_t i = 0; i < 6; ++i) {
        const std::int32_t id = got.ids[t * 6 + i];
        EXPECT_TRUE(id >= 0 && id < 16);
        EXPECT_TRUE(i == 0 || id > got.ids[t * 6 + i - 1]);
      }
    }
  }
}

TEST_P(RouterTest, a_row_has_the_same_bits_in_any_company) {
  const Rows logits = Rows::random(random_, 40, 896, 2);
  const GuardedVector<float> bias = random_.vector(896, 0.1);
  expect_rows_independent(random_, 40, [&](const auto& order, ThreadTeam& team) {
    const Choice got = route(kernels(), logits.select(order), bias, {.top_k = 8}, team);
    Rows both(static_cast<std::int64_t>(order.size()), 16);
    for (std::int64_t t = 0; t < both.rows(); ++t) {
      for (std::int64_t i = 0; i < 8; ++i) {
        both.at(t, i) = static_cast<float>(got.ids[t * 8 + i]);
        both.at(t, 8 + i) = got.weights[t * 8 + i];
      }
    }
    return both;
  });
}

}  // namespace
}  // namespace tandem::testing
