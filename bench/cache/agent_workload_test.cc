#include "cache/agent_workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cache/python_random.h"

namespace tandem {
namespace {

TEST(PythonRandom, draws_what_python_draws) {
  PythonRandom random(42);
  EXPECT_DOUBLE_EQ(random.random(), 0.6394267984578837);
  EXPECT_EQ(random.randint(9000, 20'000), 9409);
  EXPECT_EQ(random.below(48), 47);
  EXPECT_EQ(random.randint(2, 4), 3);
  EXPECT_DOUBLE_EQ(random.random(), 0.24489185380347622);
}

// Figures of the Python study's own generator.
TEST(AgentWorkload, is_the_trace_of_the_study) {
  const AgentWorkload workload = make_agent_workload(7, 4000);
  EXPECT_EQ(workload.turns.size(), 4000u);
  EXPECT_EQ(workload.segments.size(), 8008u);
  EXPECT_EQ(workload.distinct_tokens(), 14'368'139);
  std::int64_t prompts = 0;
  for (const Turn& turn : workload.turns) prompts += workload.at(turn.message).end_tokens;
  EXPECT_EQ(prompts, 229'240'251);
}

TEST(AgentWorkload, text_is_shared_exactly_where_segments_are) {
  AgentWorkload workload;
  const int root = workload.add_segment(-1, 10);
  const int left = workload.add_segment(root, 5);
  const int right = workload.add_segment(root, 7);
  const std::vector<TokenId> a = workload.text(left);
  const std::vector<TokenId> b = workload.text(right);
  ASSERT_EQ(a.size(), 15u);
  ASSERT_EQ(b.size(), 17u);
  std::set<TokenId> shared(a.begin(), a.end());
  std::erase_if(shared,
                [&](TokenId token) { return std::find(b.begin(), b.end(), token) == b.end(); });
  EXPECT_EQ(shared, std::set<TokenId>(a.begin(), a.begin() + 10));
}

}  // namespace
}  // namespace tandem
