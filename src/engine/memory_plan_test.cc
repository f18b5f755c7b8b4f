#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include "memory/arena.h"
#include "model/config.h"
#include "support/cases.h"
#include "support/temp_folder.h"

namespace tandem {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;

ModelSpec published(const std::string& name) {
  const auto path = source_folder() / "tests/data/configs" / (name + ".config.json");
  return parse_config(read_text(path), path.string()).value();
}

CacheCosts costs_of(const std::string& name, const CacheOptions& options) {
  const auto costs = cache_costs(published(name), options);
  EXPECT_TRUE(costs) << costs.error().message;
  return costs.value_or(CacheCosts{});
}

// A state of 10 units of 64 bytes, pages of 4 rows and 2 units.
MemoryPlan small_plan(std::int64_t units) {
  return {
      .costs = {.state_bytes = 640, .row_bytes = 32, .page_rows = 4, .context_limit_tokens = 4096},
      .budget_bytes = 64 * units};
}

TEST(CacheCostsTest, kimi_k3_over_eight_ranks) {
  const CacheCosts costs = costs_of("kimi-k3", {.tp_size = 8, .page_rows = 64});
  EXPECT_EQ(costs.state_bytes, 56'171'520);
  EXPECT_EQ(costs.row_bytes, 27'648);
  EXPECT_EQ(costs.token_bytes(), 27'648);
  EXPECT_EQ(costs.state_cost_tokens(), 2'032);
  EXPECT_EQ(costs.page_tokens(), 64);
  EXPECT_EQ(costs.page_bytes(), 1'769'472);
  EXPECT_EQ(costs.context_limit_tokens, 1'048'576);
}

TEST(CacheCostsTest, sharing_rows_by_position_makes_tokens_cheap_and_states_dear) {
  const CacheCosts costs = costs_of("kimi-k3", {.tp_size = 8, .dcp_size = 8, .page_rows = 64});
  EXPECT_EQ(costs.state_bytes, 56'171'520);
  EXPECT_EQ(costs.token_bytes(), 27'648 / 8);
  EXPECT_EQ(costs.state_cost_tokens(), 16'254);
  // A page grows by tokens, not by bytes.
  EXPECT_EQ(costs.page_tokens(), 512);
  EXPECT_EQ(costs.page_bytes(), 1'769'472);
}

TEST(CacheCostsTest, heads_are_split_and_rows_are_not) {
  const CacheCosts one = costs_of("kimi-k3", {});
  const CacheCosts eight = costs_of("kimi-k3", {.tp_size = 8, .page_rows = 64});
  EXPECT_EQ(one.state_bytes, 8 * eight.state_bytes);
  EXPECT_EQ(one.row_bytes, eight.row_bytes);
}

TEST(CacheCostsTest, exact_precision_doubles_rows_and_windows_but_not_states) {
  const CacheCosts usual = costs_of("kimi-k3", {.tp_size = 8, .page_rows = 64});
  const CacheCosts exact = costs_of("kimi-k3", {.precision = Precision::kExact, .tp_size = 8});
  EXPECT_EQ(exact.row_bytes, 2 * usual.row_bytes);
  const std::int64_t recurrent = 69 * 12 * 128 * 128 * 4;
  EXPECT_EQ(exact.state_bytes - recurrent, 2 * (usual.state_bytes - recurrent));
}

TEST(CacheCostsTest, kimi_linear_by_hand) {
  const CacheCosts costs = costs_of("kimi-linear-48b", {});
  EXPECT_EQ(costs.state_bytes, 20 * 32 * (128 * 128 * 4 + 3 * 128 * 3 * 2));
  EXPECT_EQ(costs.row_bytes, 7 * (512 + 64) * 2);
}

TEST(CacheCostsTest, a_model_without_rows_has_no_cost_in_tokens) {
  EXPECT_EQ((CacheCosts{.state_bytes = 64, .page_rows = 64}).state_cost_tokens(), 0);
}

TEST(CacheCostsTest, layouts_that_do_not_divide_are_named) {
  const ModelSpec k3 = published("kimi-k3");
  const auto message = [&](const CacheOptions& options) {
    const auto costs = cache_costs(k3, options);
    EXPECT_FALSE(costs);
    EXPECT_EQ(costs.error().code, StatusCode::kInvalidArgument);
    return costs.error().message;
  };
  expect_one_line(message({.tp_size = 7}), {"tp size 7", "96 heads"});
  expect_one_line(message({.tp_size = 0}), {"tp size is 0"});
  expect_one_line(message({.tp_size = 8, .dcp_size = 3}), {"dcp size 3", "tp size 8"});
  expect_one_line(message({.tp_size = 4, .dcp_size = 8}), {"dcp size 8", "tp size 4"});
  expect_one_line(message({.dcp_size = 0}), {"dcp size is 0"});
  expect_one_line(message({.page_rows = 0}), {"page size is 0"});
  expect_one_line(message({.page_rows = 1 << 20}), {"page size is 1048576"});
}

TEST(MemoryPlanTest, counts_requests_and_context_by_hand) {
  // 40 units: 10 of padding leave 30.
  const MemoryPlan plan = small_plan(40);
  EXPECT_EQ(plan.usable_bytes(), 30 * 64);
  EXPECT_EQ(plan.requests_that_fit(1), 2);   // 12 units each
  EXPECT_EQ(plan.requests_that_fit(4), 2);   // still one page
  EXPECT_EQ(plan.requests_that_fit(8), 2);   // 14 units each
  EXPECT_EQ(plan.requests_that_fit(12), 1);  // 16 units
  EXPECT_EQ(plan.requests_that_fit(40), 1);  // 30 units
  EXPECT_EQ(plan.requests_that_fit(41), 0);
  EXPECT_EQ(plan.context_that_fits(1), 40);
  EXPECT_EQ(plan.context_that_fits(2), 8);  // 5 units a request for rows: 2 pages
  EXPECT_EQ(plan.context_that_fits(3), 0);
  EXPECT_EQ(plan.context_that_fits(std::int64_t{1} << 62), 0);
}

TEST(MemoryPlanTest, a_budget_that_holds_nothing_has_answers_too) {
  for (std::int64_t units : {0, 5, 10, 20}) {
    const MemoryPlan plan = small_plan(units);
    EXPECT_EQ(plan.requests_that_fit(1), 0) << units;
    EXPECT_EQ(plan.context_that_fits(1), 0) << units;
    for (const ContextRow& row : plan.context_table()) EXPECT_EQ(row.requests, 0);
  }
}

TEST(MemoryPlanTest, the_table_goes_up_to_the_models_limit) {
  const MemoryPlan plan = {costs_of("kimi-k3", {.tp_size = 8, .page_rows = 64}), 40 * kGiB};
  std::vector<std::int64_t> contexts;
  for (const ContextRow& row : plan.context_table()) {
    contexts.push_back(row.context_tokens);
    const std::int64_t state = row.requests * 56'171'520;
    const std::int64_t rows = row.requests * row.context_tokens * 27'648;
    const auto usable = static_cast<double>(40 * kGiB - 56'171'520);
    EXPECT_DOUBLE_EQ(row.state_share, static_cast<double>(state) / usable);
    EXPECT_DOUBLE_EQ(row.row_share, static_cast<double>(rows) / usable);
    EXPECT_LE(row.state_share + row.row_share, 1);
  }
  EXPECT_EQ(contexts, (std::vector<std::int64_t>{1024, 8192, 65536, 524288, 1048576}));
  EXPECT_EQ(plan.context_table()[0].requests, 507);  // (40 GiB - S) / (S + 1024 k)

  MemoryPlan brief = small_plan(1000);
  ASSERT_EQ(brief.context_table().size(), 2u);
  EXPECT_EQ(brief.context_table()[1].context_tokens, 4096);
  brief.costs.context_limit_tokens = 1024;
  EXPECT_EQ(brief.context_table().size(), 1u);
}

TEST(MemoryPlanTest, the_summary_is_one_line_with_the_numbers) {
  const MemoryPlan plan = {costs_of("kimi-k3", {.tp_size = 8, .page_rows = 64}), 40 * kGiB};
  expect_one_line(plan.summary(), {"40.00 GiB", "507 of 1024", "1 request of 1048576 tokens",
                                   "53.57 MiB", "2032 tokens", "27.00 KiB"});
  MemoryPlan brief = small_plan(1000);
  brief.costs.context_limit_tokens = 900;
  EXPECT_EQ(brief.summary().find("1024"), std::string::npos) << brief.summary();
}

// What is said to fit, the allocator hands out, and not one request more.
TEST(MemoryPlanTest, the_allocator_agrees) {
  for (std::int64_t units : {40, 41, 43, 64, 100}) {
    for (std::int64_t tokens : {1, 4, 5, 9, 30}) {
      const MemoryPlan plan = small_plan(units);
      const auto arena = Arena::create(plan.geometry()).value();
      std::vector<StateHandle> states;
      std::vector<PageHandle> pages;
      const auto add_request = [&] {
        states.push_back(arena->allocate_work(RequestId(states.size() + 1)));
        if (!states.back()) return false;
        for (std::int64_t p = 0; p < plan.costs.pages_of(tokens); ++p) {
          pages.push_back(arena->allocate_page());
          if (!pages.back()) return false;
        }
        return true;
      };
      for (std::int64_t r = 0; r < plan.requests_that_fit(tokens); ++r) {
        EXPECT_TRUE(add_request()) << units << " units, " << tokens << " tokens, request " << r;
      }
      EXPECT_FALSE(add_request()) << units << " units, " << tokens << " tokens";
    }
  }
}

TEST(CheckFitsTest, holds_exactly_where_the_requests_fit) {
  EXPECT_TRUE(check_fits(small_plan(40), 40));
  EXPECT_FALSE(check_fits(small_plan(39), 40));
  EXPECT_TRUE(check_fits(small_plan(40), 8, 2));
  EXPECT_FALSE(check_fits(small_plan(40), 9, 2));
}

TEST(CheckFitsTest, says_the_sum_and_what_would_fit) {
  const MemoryPlan plan = {costs_of("kimi-k3", {.tp_size = 8, .page_rows = 64}), kGiB};
  const auto full = check_fits(plan, 1'048'576);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, StatusCode::kInvalidArgument);
  expect_one_line(full.error().message,
                  {"1 request of 1048576 tokens needs 27.10 GiB", "padding 53.57 MiB",
                   "a state of 53.57 MiB and 16384 pages of 1.69 MiB", "there is 1.00 GiB",
                   "1 of 34752 tokens"});
  expect_one_line(check_fits(plan, 8192, 4).error().message,
                  {"4 requests of 8192 tokens need 1.11 GiB", "3 such requests, or 4 of 7168"});
  expect_one_line(check_fits({plan.costs, kMiB}, 1).error().message,
                  {"1 request of 1 token needs", "1 page of 1.69 MiB", "that holds none"});
}

TEST(CheckFitsTest, a_context_beyond_all_memory_does_not_overflow) {
  MemoryPlan plan = small_plan(1000);
  plan.costs.row_bytes = std::int64_t{1} << 40;
  plan.costs.context_limit_tokens = (std::int64_t{1} << 31) - 1;
  EXPECT_EQ(plan.requests_that_fit(plan.costs.context_limit_tokens), 0);
  EXPECT_FALSE(check_fits(plan, plan.costs.context_limit_tokens, std::int64_t{1} << 62));
}

TEST(CheckFitsTest, a_budget_with_more_entries_than_names_is_refused) {
  MemoryPlan plan = small_plan(1);
  plan.budget_bytes = std::int64_t{1} << 50;
  EXPECT_FALSE(check_fits(plan, 1));
}

TEST(DefaultBudgetTest, takes_the_fraction_less_the_weights) {
  const CacheCosts costs = costs_of("kimi-k3", {.tp_size = 8, .page_rows = 64});
  const SystemMemory machine = {.total_bytes = 300 * kGiB, .available_bytes = 200 * kGiB};
  EXPECT_EQ(default_memory_budget(costs, machine, 100 * kGiB, {.memory_fraction = 0.75}),
            50 * kGiB);
  EXPECT_EQ(default_memory_budget(costs, machine, 190 * kGiB, {.memory_fraction = 0.75}), 0);
}

TEST(DefaultBudgetTest, a_small_model_takes_what_its_requests_can_use_and_no_more) {
  const CacheCosts costs = small_plan(0).costs;
  const SystemMemory machine = {.total_bytes = kGiB, .available_bytes = kGiB};
  const std::int64_t budget = default_memory_budget(costs, machine, 0, {.max_running = 3});
  // Padding, and for each request twice a state and 4096 / 4 pages.
  EXPECT_EQ(budget, 640 + 3 * 2 * (640 + 1024 * 128));
}

}  // namespace
}  // namespace tandem
