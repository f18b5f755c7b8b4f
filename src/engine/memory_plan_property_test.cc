// Whatever the prices, the answers of a plan agree with each other and with the allocator's
// arithmetic.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "engine/memory_plan.h"

namespace tandem {
namespace {

std::int64_t any(std::int64_t low, std::int64_t high) {
  return *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(low, high));
}

MemoryPlan any_plan() {
  MemoryPlan plan;
  plan.costs = {.state_bytes = any(0, 5000),
                .row_bytes = any(0, 300),
                .dcp_size = any(1, 9),
                .page_rows = any(1, 70),
                .context_limit_tokens = any(1, 5000)};
  plan.budget_bytes = any(0, 1 << 20);
  return plan;
}

EntryCounts entries(const MemoryPlan& plan, std::int64_t tokens, std::int64_t requests) {
  return {requests, requests * plan.costs.pages_of(tokens)};
}

RC_GTEST_PROP(MemoryPlanPropertyTest, so_many_requests_fit_and_no_more, ()) {
  const MemoryPlan plan = any_plan();
  const std::int64_t tokens = any(1, plan.costs.context_limit_tokens + 1);
  const std::int64_t requests = plan.requests_that_fit(tokens);
  RC_ASSERT(requests == 0 || plan.geometry().fits(entries(plan, tokens, requests)));
  RC_ASSERT(!plan.geometry().fits(entries(plan, tokens, requests + 1)));
}

RC_GTEST_PROP(MemoryPlanPropertyTest, so_long_a_context_fits_and_no_page_more, ()) {
  const MemoryPlan plan = any_plan();
  const std::int64_t requests = any(1, 40);
  const std::int64_t tokens = plan.context_that_fits(requests);
  RC_ASSERT(tokens <= plan.costs.context_limit_tokens);
  if (tokens > 0) {
    RC_ASSERT(plan.geometry().fits(entries(plan, tokens, requests)));
    RC_ASSERT(plan.requests_that_fit(tokens) >= requests);
  }
  if (tokens < plan.costs.context_limit_tokens) {
    RC_ASSERT(!plan.geometry().fits(entries(plan, tokens + 1, requests)));
  }
}

RC_GTEST_PROP(MemoryPlanPropertyTest, check_fits_is_the_same_question, ()) {
  const MemoryPlan plan = any_plan();
  const std::int64_t tokens = any(1, plan.costs.context_limit_tokens + 1);
  const std::int64_t requests = any(1, 40);
  RC_ASSERT(check_fits(plan, tokens, requests).has_value() ==
            (plan.requests_that_fit(tokens) >= requests));
}

RC_GTEST_PROP(MemoryPlanPropertyTest, the_default_budget_serves_all_that_it_is_capped_for, ()) {
  const CacheCosts costs = any_plan().costs;
  const std::int64_t running = any(1, 20);
  const std::int64_t budget =
      default_memory_budget(costs, {1 << 30, 1 << 30}, 0, {.max_running = running});
  const MemoryPlan plan = {costs, budget};
  RC_ASSERT(plan.requests_that_fit(costs.context_limit_tokens) >= 2 * running);
}

}  // namespace
}  // namespace tandem
