// The promise of one budget under a load that flips.
#include <gtest/gtest.h>

#include "cache/flip_comparison.h"

namespace tandem {
namespace {

TEST(FlipLoad, one_arena_does_what_the_best_split_of_each_phase_does) {
  for (const std::int64_t page_tokens : {64, 512}) {
    const FlipComparison c = compare_flips(page_tokens, 7'200'000);
    for (std::size_t i = 0; i < c.phases.size(); ++i) {
      EXPECT_GE(c.joint[i].answer_tokens_a_second, 0.98 * c.best_split[i].answer_tokens_a_second)
          << c.phases[i].name << ", pages of " << page_tokens;
    }
  }
}

// Or the comparison would show nothing.
TEST(FlipLoad, no_fixed_split_does_so_where_states_are_large) {
  const FlipComparison c = compare_flips(512, 1'800'000);
  for (std::size_t i = 0; i < c.phases.size(); ++i) {
    EXPECT_LE(c.fixed_split[i].answer_tokens_a_second, 0.9 * c.best_split[i].answer_tokens_a_second)
        << c.phases[i].name;
  }
}

}  // namespace
}  // namespace tandem
