// The promises of the prefix cache on a trace of branching agents.
#include <gtest/gtest.h>

#include "cache/comparison.h"

namespace tandem {
namespace {

constexpr std::size_t kTurns = 4000;

TEST(AgentTrace, the_models_earn_what_the_python_study_reports) {
  const AgentWorkload workload = make_agent_workload(7, 4000);
  const auto distinct = static_cast<double>(workload.distinct_tokens());
  const auto hit_rate = [&](const PoolPolicy& policy, double share, double state_tokens) {
    return replay_pools(workload, policy, share * distinct, state_tokens).hit_rate();
  };
  EXPECT_NEAR(hit_rate(reference_like_policy(64), 0.15, 2032), 0.674, 0.0005);
  EXPECT_NEAR(hit_rate(reference_like_policy(64), 0.45, 16'254), 0.482, 0.0005);
  const PoolPolicy split{.state_share = 0.15, .spacing_tokens = 8192};
  EXPECT_NEAR(hit_rate(split, 0.15, 2032), 0.814, 0.0005);
}

TEST(AgentTrace, one_budget_needs_no_split_when_states_are_small) {
  const Comparison c = compare(make_agent_workload(7, kTurns), tensor_parallel_8());
  const double joint = c.joint.earnings.hit_rate();
  EXPECT_GE(joint, 0.98 * c.best_split.hit_rate());
  EXPECT_GE(joint, 1.12 * c.reference.hit_rate());
  EXPECT_GE(joint, 0.88 * c.offline.hit_rate());
  EXPECT_LE(joint, c.offline_bound);
  EXPECT_LE(c.joint.earnings.lost_to_state(), 0.02);
}

TEST(AgentTrace, one_budget_needs_no_split_when_states_are_large) {
  const Comparison c = compare(make_agent_workload(7, kTurns), context_parallel_8(512));
  const double joint = c.joint.earnings.hit_rate();
  EXPECT_GE(joint, 0.98 * c.best_split.hit_rate());
  EXPECT_GE(joint, 1.5 * c.reference.hit_rate());
  EXPECT_GE(joint, 0.9 * c.infinite.hit_rate());
  EXPECT_GE(joint, 0.93 * c.offline.hit_rate());
  EXPECT_LE(joint, c.offline_bound);
  EXPECT_LE(c.joint.earnings.lost_to_state(), 0.06);
}

}  // namespace
}  // namespace tandem
