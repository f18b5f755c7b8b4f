#include "served_memory.h"

#include <algorithm>

#include "base/byte_size.h"
#include "engine/weight_bytes.h"
#include "model/config.h"

namespace tandem {

Result<MemoryPlan> choose_memory(const std::filesystem::path& folder, Precision precision,
                                 const EngineFlags& flags, EngineOptions& options) {
  const ModelSpec spec = TRY(read_config(folder));
  const Checkpoint checkpoint = TRY(Checkpoint::open(folder));
  const std::int64_t weights = weight_bytes(spec, &checkpoint);
  const SystemMemory memory = TRY(read_system_memory());
  MemoryPlan plan;
  plan.costs = TRY(cache_costs(spec, {.precision = precision, .page_rows = options.page_tokens}));
  plan.costs.context_limit_tokens =
      std::min(plan.costs.context_limit_tokens,
               flags.context_tokens.value_or(plan.costs.context_limit_tokens));
  plan.budget_bytes = default_memory_budget(
      plan.costs, memory, weights,
      {.memory_fraction = flags.memory_fraction, .max_running = options.max_running});
  if (const auto fits = check_fits(plan, plan.costs.context_limit_tokens); !fits) {
    return invalid(
        "{}. The memory is {:g} (--mem-fraction-static) of the {} available, less {} of weights; "
        "--context-length asks for less",
        fits.error().message, flags.memory_fraction, byte_text(memory.available_bytes),
        byte_text(weights));
  }
  options.memory_bytes = plan.budget_bytes;
  return plan;
}

}  // namespace tandem
