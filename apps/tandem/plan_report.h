// What `tandem plan` prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/memory_plan.h"

namespace tandem {

struct PlanReport {
  std::string model;         // as the user named it
  std::string architecture;  // as the configuration names it
  std::string precision;
  std::int64_t tp_size = 1;
  std::int64_t weight_bytes = 0;  // of one rank
  std::string weight_source;      // "files" or "configuration"
  std::string budget_source;      // where the plan's budget comes from, in words
  MemoryPlan plan;
  // What was asked; at least so much fits.
  std::optional<std::int64_t> context_tokens;
  std::optional<std::int64_t> requests;
};

// Aligned lines for people, the last one the conclusion.
std::string plan_text(const PlanReport& report);
// One object; bytes and tokens as integers, shares from 0 to 1.
std::string plan_json(const PlanReport& report);

}  // namespace tandem
