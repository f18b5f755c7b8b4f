#include "plan_report.h"

#include <nlohmann/json.hpp>

#include "base/byte_size.h"

namespace tandem {
namespace {

std::string line(std::string_view name, const std::string& value, const std::string& note) {
  return fmt::format("  {:<8}{:>12}  {}\n", name, value, note);
}

std::string requests_text(std::int64_t requests) {
  return fmt::format("{} request{}", requests, requests == 1 ? "" : "s");
}

std::string conclusion(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  if (report.context_tokens) {
    const std::int64_t requests =
        report.requests.value_or(plan.requests_that_fit(*report.context_tokens));
    return fmt::format("{} of {} tokens fit at once.", requests_text(requests),
                       *report.context_tokens);
  }
  if (report.requests) {
    return fmt::format("{} at once can have {} tokens each.", requests_text(*report.requests),
                       plan.context_that_fits(*report.requests));
  }
  const std::int64_t limit = plan.costs.context_limit_tokens;
  if (const std::int64_t requests = plan.requests_that_fit(limit); requests > 0) {
    return fmt::format("{} of the model's full {} tokens fit at once.", requests_text(requests),
                       limit);
  }
  return fmt::format("The model's full {} tokens do not fit; one request can have {}.", limit,
                     plan.context_that_fits(1));
}

std::string state_note(const CacheCosts& costs) {
  const std::string of = "of a request or a cached checkpoint";
  const std::int64_t tokens = costs.state_cost_tokens();
  return tokens == 0 ? of : fmt::format("{}: as much as {} tokens of context", of, tokens);
}

std::string token_note(const CacheCosts& costs) {
  if (costs.dcp_size == 1) return "of context";
  return fmt::format("of context: {} on one rank in {}", byte_text(costs.row_bytes),
                     costs.dcp_size);
}

}  // namespace

std::string plan_text(const PlanReport& report) {
  const MemoryPlan& plan = report.plan;
  const CacheCosts& costs = plan.costs;
  std::string text =
      fmt::format("{} ({}), {} precision, tp {}, dcp {}; on each rank:\n\n", report.model,
                  report.architecture, report.precision, report.tp_size, costs.dcp_size);
  text += line("weights", byte_text(report.weight_bytes),
               fmt::format("by the {}", report.weight_source));
  text += line("state", byte_text(costs.state_bytes), state_note(costs));
  text +=
      line("token", byte_text(static_cast<std::int64_t>(costs.token_bytes())), token_note(costs));
  text += line("page", byte_text(costs.page_bytes()),
               fmt::format("{} rows, {} tokens", costs.page_rows, costs.page_tokens()));
  text += line("cache", byte_text(plan.budget_bytes),
               fmt::format("{}; {} of it are padding", report.budget_source,
                           byte_text(plan.geometry().sink_bytes())));
  text +=
      fmt::format("\n  {:>9}{:>10}{:>13}{:>11}\n", "context", "requests", "for states", "for rows");
  for (const ContextRow& row : plan.context_table()) {
    text += fmt::format("  {:>9}{:>10}{:>11.1f} %{:>9.1f} %\n", row.context_tokens, row.requests,
                        row.state_share * 100, row.row_share * 100);
  }
  return text + "\n" + conclusion(report) + "\n";
}

std::string plan_json(const PlanReport& report) {
  using Json = nlohmann::ordered_json;
  const MemoryPlan& plan = report.plan;
  const CacheCosts& costs = plan.costs;
  const ArenaGeometry arena = plan.geometry();
  Json table = Json::array();
  for (const ContextRow& row : plan.context_table()) {
    table.push_back({{"context_tokens", row.context_tokens},
                     {"requests", row.requests},
                     {"state_share", row.state_share},
                     {"row_share", row.row_share}});
  }
  Json json = {
      {"model", report.model},
      {"architecture", report.architecture},
      {"precision", report.precision},
      {"tp_size", report.tp_size},
      {"dcp_size", costs.dcp_size},
      {"context_limit_tokens", costs.context_limit_tokens},
      {"weight_bytes", report.weight_bytes},
      {"weight_source", report.weight_source},
      {"state_bytes", costs.state_bytes},
      {"state_cost_tokens", costs.state_cost_tokens()},
      {"row_bytes", costs.row_bytes},
      {"token_bytes", costs.token_bytes()},
      {"page_rows", costs.page_rows},
      {"page_tokens", costs.page_tokens()},
      {"page_bytes", costs.page_bytes()},
      {"budget_bytes", plan.budget_bytes},
      {"budget_source", report.budget_source},
      {"padding_bytes", arena.sink_bytes()},
      {"usable_bytes", plan.usable_bytes()},
      {"table", std::move(table)},
  };
  if (report.context_tokens || report.requests) {
    const std::int64_t tokens =
        report.context_tokens ? *report.context_tokens : plan.context_that_fits(*report.requests);
    const std::int64_t requests =
        report.requests ? *report.requests : plan.requests_that_fit(*report.context_tokens);
    json["answer"] = {{"context_tokens", tokens}, {"requests", requests}};
  }
  // A model's name may hold bytes that are no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tandem
