#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "schedule/cost_table.h"

namespace tandem {
namespace {

rc::Gen<std::int64_t> up_to(std::int64_t limit) {
  return rc::gen::resize(100, rc::gen::inRange<std::int64_t>(0, limit + 1));
}

rc::Gen<StepWork> any_work() {
  return rc::gen::build<StepWork>(rc::gen::set(&StepWork::prefill_tokens, up_to(10'000)),
                                  rc::gen::set(&StepWork::prefill_context_tokens, up_to(200'000)),
                                  rc::gen::set(&StepWork::decode_rows, up_to(600)));
}

struct Measured {
  StepWork work;
  double ms;
};

// Times that have nothing to do with the work, over five decades.
std::vector<Measured> any_measurements() {
  const auto times = rc::gen::map(up_to(100'000),
                                  [](std::int64_t n) { return 0.01 * static_cast<double>(n + 1); });
  return *rc::gen::container<std::vector<Measured>>(
      rc::gen::map(rc::gen::pair(any_work(), times), [](const std::pair<StepWork, double>& drawn) {
        return Measured{drawn.first, drawn.second};
      }));
}

CostTable taught(const std::vector<Measured>& measured) {
  auto table =
      CostTable::create({.fixed_ms = 5, .token_ms = 0.01, .attention_ms = 1e-7, .row_ms = 0.02})
          .value();
  for (const Measured& step : measured) table.correct(step.work, step.ms);
  return table;
}

RC_GTEST_PROP(CostTablePropertyTest, never_falls_when_an_argument_grows, ()) {
  const CostTable table = taught(any_measurements());
  const StepWork work = *any_work();
  StepWork more = work;
  more.prefill_tokens += *up_to(300);
  more.prefill_context_tokens += *up_to(300);
  more.decode_rows += *up_to(10);
  RC_ASSERT(table.step_ms(work) <= table.step_ms(more));
  const auto chunk = 1 + *up_to(5000);
  const auto tokens = *up_to(50'000);
  RC_ASSERT(table.prefill_ms(tokens, chunk) < table.prefill_ms(tokens + 1, chunk));
}

RC_GTEST_PROP(CostTablePropertyTest, the_same_measurements_give_the_same_bits, ()) {
  const auto measured = any_measurements();
  const StepWork work = *any_work();
  RC_ASSERT(taught(measured).step_ms(work) == taught(measured).step_ms(work));
}

RC_GTEST_PROP(CostTablePropertyTest, the_largest_prefill_is_what_trying_all_would_find, ()) {
  const CostTable table = taught(any_measurements());
  CostTable::Budget budget = {.step_ms = static_cast<double>(*up_to(500)),
                              .grid_tokens = 1 + *up_to(128)};
  budget.min_tokens = budget.grid_tokens * *up_to(4);
  budget.max_tokens = budget.min_tokens + *up_to(5000);
  const auto context = *up_to(100'000);
  const auto rows = *up_to(300);
  std::int64_t wanted = budget.min_tokens;
  for (std::int64_t n = wanted; n <= budget.max_tokens; n += budget.grid_tokens) {
    if (table.step_ms({n, context, rows}) <= budget.step_ms) wanted = n;
  }
  RC_ASSERT(table.largest_prefill(budget, context, rows) == wanted);
}

}  // namespace
}  // namespace tandem
