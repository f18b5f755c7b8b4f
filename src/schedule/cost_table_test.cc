#include "schedule/cost_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem {
namespace {

constexpr CostSeed kSeed = {.fixed_ms = 5, .token_ms = 0.01, .attention_ms = 1e-7, .row_ms = 0.02};

CostTable seeded(const CostSeed& seed = kSeed) { return CostTable::create(seed).value(); }

double closed_form_ms(const CostSeed& seed, const StepWork& work) {
  const auto tokens = static_cast<double>(work.prefill_tokens);
  const auto context = static_cast<double>(work.prefill_context_tokens);
  return seed.fixed_ms + seed.token_ms * tokens +
         seed.attention_ms * tokens * (context + tokens / 2) +
         seed.row_ms * static_cast<double>(work.decode_rows);
}

TEST(CostTableTest, starts_as_the_closed_form) {
  const CostTable table = seeded();
  for (const std::int64_t tokens : {0, 1, 2, 3, 512, 1000, 8192, 3'000'000}) {
    for (const std::int64_t rows : {1, 7, 256, 100'000}) {
      const StepWork work = {tokens, 4000, rows};
      const double wanted = closed_form_ms(kSeed, work);
      EXPECT_NEAR(table.step_ms(work), wanted, 1e-12 * wanted);
    }
  }
  EXPECT_EQ(table.step_ms({}), 0);
}

TEST(CostTableTest, a_seed_that_is_not_above_zero_is_refused) {
  for (double CostSeed::*const field :
       {&CostSeed::fixed_ms, &CostSeed::token_ms, &CostSeed::attention_ms, &CostSeed::row_ms}) {
    for (const double value : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
      CostSeed seed = kSeed;
      seed.*field = value;
      const auto table = CostTable::create(seed);
      ASSERT_FALSE(table.has_value());
      EXPECT_EQ(table.error().code, StatusCode::kInvalidArgument);
    }
  }
}

TEST(CostTableTest, learns_a_machine_unlike_its_seed) {
  const CostSeed real = {.fixed_ms = 12, .token_ms = 0.05, .attention_ms = 4e-7, .row_ms = 0.1};
  CostTable table = seeded();
  std::uint64_t state = 1;
  const auto below = [&](std::uint64_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>((state >> 33) % limit);
  };
  const auto any_work = [&] {
    return StepWork{below(3) == 0 ? 0 : 512 * below(9), 1000 * below(50), 1 + below(256)};
  };
  for (int i = 0; i < 3000; ++i) {
    const StepWork work = any_work();
    table.correct(work, closed_form_ms(real, work));
  }
  for (int i = 0; i < 200; ++i) {
    const StepWork work = any_work();
    EXPECT_NEAR(table.step_ms(work) / closed_form_ms(real, work), 1, 0.1);
  }
}

TEST(CostTableTest, sizes_not_measured_follow_those_that_were) {
  CostTable table = seeded();
  const StepWork work = {.prefill_tokens = 2048};
  for (int i = 0; i < 500; ++i) table.correct(work, 3 * closed_form_ms(kSeed, work));
  const StepWork larger = {.prefill_tokens = 4096};
  EXPECT_GT(table.step_ms(larger), 2.5 * closed_form_ms(kSeed, larger));
}

TEST(CostTableTest, a_stair_at_one_size_stays_there) {
  CostTable table = seeded();
  const auto real_ms = [](std::int64_t rows) { return rows <= 16 ? 6.0 : 12.0; };
  for (int i = 0; i < 2000; ++i) {
    for (const std::int64_t rows : {1, 8, 16, 32}) {
      table.correct({.decode_rows = rows}, real_ms(rows));
    }
  }
  for (const std::int64_t rows : {1, 8, 16, 32}) {
    EXPECT_NEAR(table.step_ms({.decode_rows = rows}), real_ms(rows), 0.1 * real_ms(rows)) << rows;
  }
}

TEST(CostTableTest, a_stall_teaches_little) {
  CostTable table = seeded();
  const StepWork work = {.prefill_tokens = 512, .decode_rows = 64};
  const double usual_ms = closed_form_ms(kSeed, work);
  for (int i = 0; i < 200; ++i) table.correct(work, usual_ms * (i % 2 == 0 ? 0.98 : 1.02));
  table.correct(work, 1000 * usual_ms);
  EXPECT_NEAR(table.step_ms(work), usual_ms, 0.02 * usual_ms);
}

TEST(CostTableTest, a_machine_that_slows_down_for_good_is_followed) {
  CostTable table = seeded();
  const StepWork work = {.prefill_tokens = 512, .decode_rows = 64};
  const double usual_ms = closed_form_ms(kSeed, work);
  for (int i = 0; i < 1000; ++i) table.correct(work, usual_ms);
  for (int i = 0; i < 100; ++i) table.correct(work, 4 * usual_ms);
  EXPECT_NEAR(table.step_ms(work), 4 * usual_ms, 0.1 * usual_ms);
}

TEST(CostTableTest, a_step_that_does_nothing_teaches_nothing) {
  CostTable table = seeded();
  table.correct({}, 100);
  EXPECT_EQ(table.step_ms({1, 0, 1}), seeded().step_ms({1, 0, 1}));
}

TEST(CostTableTest, a_prompt_costs_what_its_chunks_cost) {
  CostTable table = seeded();
  table.correct({1000, 0, 3}, 200);
  double sum_ms = 0;
  for (std::int64_t from = 0; from < 10'000; from += 2048) {
    sum_ms += table.step_ms({std::min<std::int64_t>(2048, 10'000 - from), from, 0});
  }
  EXPECT_NEAR(table.prefill_ms(10'000, 2048), sum_ms, 1e-9 * sum_ms);
  EXPECT_EQ(table.prefill_ms(0, 2048), 0);
}

TEST(CostTableTest, a_prefill_cost_handed_out_does_not_change) {
  CostTable table = seeded();
  const PrefillCost cost = table.prefill_cost(2048);
  const double before = cost(5000);
  table.correct({2048, 0, 0}, 1000);
  EXPECT_EQ(cost(5000), before);
  EXPECT_NE(table.prefill_cost(2048)(5000), before);
}

TEST(CostTableTest, the_largest_prefill_fits_and_one_more_grid_step_does_not) {
  const CostTable table = seeded();
  const CostTable::Budget budget = {
      .step_ms = 50, .grid_tokens = 64, .min_tokens = 512, .max_tokens = 8192};
  const std::int64_t tokens = table.largest_prefill(budget, 10'000, 100);
  EXPECT_LE(table.step_ms({tokens, 10'000, 100}), 50);
  EXPECT_GT(table.step_ms({tokens + 64, 10'000, 100}), 50);
}

TEST(CostTableTest, the_largest_prefill_keeps_to_its_bounds_and_grid) {
  const CostTable table = seeded();
  CostTable::Budget budget = {
      .step_ms = 0, .grid_tokens = 64, .min_tokens = 512, .max_tokens = 1000};
  EXPECT_EQ(table.largest_prefill(budget, 0, 0), 512);
  budget.step_ms = 1e9;
  EXPECT_EQ(table.largest_prefill(budget, 0, 0), 960);
}

}  // namespace
}  // namespace tandem
