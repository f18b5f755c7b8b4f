#include "engine/memory_plan.h"

#include <algorithm>
#include <limits>

#include "base/byte_size.h"
#include "model/memory_layout.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxRanks = 1 << 12;
constexpr std::int64_t kMaxPageRows = 1 << 16;
constexpr std::int64_t kShortestContext = 1024;  // of the table
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// Products and sums that stay at the largest number instead of overflowing: for questions about
// contexts far beyond what fits.
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? kMost : result;
}
std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? kMost : result;
}

std::int64_t share(std::int64_t whole, std::int64_t ranks) { return (whole + ranks - 1) / ranks; }

std::string counted(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

Result<void> check_range(std::string_view name, std::int64_t value, std::int64_t most) {
  if (value >= 1 && value <= most) return {};
  return invalid("{} is {}; expected 1 to {}", name, value, most);
}

Result<std::int64_t> heads_of_rank(std::string_view layers, std::int64_t heads,
                                   std::int64_t tp_size) {
  if (heads % tp_size == 0) return heads / tp_size;
  return invalid("tp size {} does not divide the {} heads of the {} layers", tp_size, heads,
                 layers);
}

std::int64_t demand_bytes(const CacheCosts& costs, std::int64_t context_tokens,
                          std::int64_t requests) {
  const ArenaGeometry entry = costs.geometry(0);
  const std::int64_t rows = product(costs.pages_of(context_tokens), entry.page_bytes);
  return product(requests, sum(entry.state_bytes, rows));
}

}  // namespace

Result<ModelSpec> spec_of_rank(const ModelSpec& spec, std::int64_t tp_size) {
  TRY(check_range("tp size", tp_size, kMaxRanks));
  ModelSpec rank = spec;
  rank.vocab_size = share(spec.vocab_size, tp_size);
  for (LayerSpec& layer : rank.layers) {
    if (auto* kda = std::get_if<KdaSpec>(&layer.attention)) {
      kda->heads = TRY(heads_of_rank("KDA", kda->heads, tp_size));
    } else {
      auto& mla = std::get<MlaSpec>(layer.attention);
      mla.dims.heads = TRY(heads_of_rank("MLA", mla.dims.heads, tp_size));
    }
    if (auto* dense = std::get_if<DenseFfnSpec>(&layer.ffn)) {
      dense->intermediate = share(dense->intermediate, tp_size);
    } else {
      auto& moe = std::get<MoeSpec>(layer.ffn);
      moe.intermediate = share(moe.intermediate, tp_size);
      moe.shared_intermediate = share(moe.shared_intermediate, tp_size);
    }
  }
  return rank;
}

Result<CacheCosts> cache_costs(const ModelSpec& spec, const CacheOptions& options) {
  TRY(check_range("page size", options.page_rows, kMaxPageRows));
  TRY(check_range("dcp size", options.dcp_size, kMaxRanks));
  const ModelSpec rank = TRY(spec_of_rank(spec, options.tp_size));
  if (options.tp_size % options.dcp_size != 0) {
    return invalid(
        "dcp size {} does not divide tp size {}: the ranks that share rows are among "
        "those that share heads",
        options.dcp_size, options.tp_size);
  }
  const StateLayout layout = memory_layout(rank, options.precision).total;
  return CacheCosts{.state_bytes = layout.state_bytes,
                    .row_bytes = layout.row_bytes,
                    .dcp_size = options.dcp_size,
                    .page_rows = options.page_rows,
                    .context_limit_tokens = spec.context_length};
}

std::int64_t CacheCosts::state_cost_tokens() const {
  return row_bytes == 0 ? 0 : (state_bytes * dcp_size + row_bytes - 1) / row_bytes;
}

ArenaGeometry CacheCosts::geometry(std::int64_t budget_bytes) const {
  return {.budget_bytes = budget_bytes,
          .state_bytes = entry_bytes(state_bytes),
          .page_bytes = page_bytes()};
}

std::int64_t MemoryPlan::usable_bytes() const {
  return std::max<std::int64_t>(geometry().usable_bytes(), 0);
}

std::int64_t MemoryPlan::requests_that_fit(std::int64_t context_tokens) const {
  return usable_bytes() / demand_bytes(costs, context_tokens, 1);
}

std::int64_t MemoryPlan::context_that_fits(std::int64_t requests) const {
  const ArenaGeometry arena = geometry();
  const std::int64_t for_rows = usable_bytes() - product(requests, arena.state_bytes);
  if (for_rows <= 0) return 0;
  const std::int64_t pages = for_rows / arena.page_bytes / requests;
  return std::min(product(pages, costs.page_tokens()), costs.context_limit_tokens);
}

std::vector<ContextRow> MemoryPlan::context_table() const {
  std::vector<std::int64_t> contexts;
  for (std::int64_t tokens = kShortestContext; tokens < costs.context_limit_tokens; tokens *= 8) {
    contexts.push_back(tokens);
  }
  contexts.push_back(costs.context_limit_tokens);
  const ArenaGeometry arena = geometry();
  const double usable = static_cast<double>(std::max<std::int64_t>(usable_bytes(), 1));
  std::vector<ContextRow> table;
  for (std::int64_t tokens : contexts) {
    const std::int64_t requests = requests_that_fit(tokens);
    const std::int64_t pages = product(requests, costs.pages_of(tokens));
    table.push_back({tokens, requests,
                     static_cast<double>(product(requests, arena.state_bytes)) / usable,
                     static_cast<double>(product(pages, arena.page_bytes)) / usable});
  }
  return table;
}

std::string MemoryPlan::summary() const {
  const std::int64_t limit = costs.context_limit_tokens;
  std::string text = fmt::format("{} of cache hold {} of {} tokens", byte_text(budget_bytes),
                                 counted(requests_that_fit(limit), "request"), limit);
  if (limit > kShortestContext) {
    text += fmt::format(" or {} of {}", requests_that_fit(kShortestContext), kShortestContext);
  }
  return text + fmt::format("; a state takes {} (as much as {} tokens), a token {}",
                            byte_text(costs.state_bytes), costs.state_cost_tokens(),
                            byte_text(static_cast<std::int64_t>(costs.token_bytes())));
}

Result<void> check_fits(const MemoryPlan& plan, std::int64_t context_tokens,
                        std::int64_t requests) {
  const CacheCosts& costs = plan.costs;
  const ArenaGeometry arena = plan.geometry();
  const std::int64_t need = demand_bytes(costs, context_tokens, requests);
  // The second also covers budgets with more entries than there are names.
  if (need <= plan.usable_bytes()) return arena.check();
  std::string instead;
  if (const std::int64_t fewer = plan.requests_that_fit(context_tokens); fewer > 0) {
    instead = fmt::format("{} such requests", fewer);
  }
  if (const std::int64_t shorter = plan.context_that_fits(requests); shorter > 0) {
    if (!instead.empty()) instead += ", or ";
    instead += fmt::format("{} of {} tokens", requests, shorter);
  }
  return invalid(
      "{} of {} need{} {} of cache memory (padding {}; each a state of {} and {} of {}), and there "
      "is {}: that holds {}",
      counted(requests, "request"), counted(context_tokens, "token"), requests == 1 ? "s" : "",
      byte_text(sum(need, arena.sink_bytes())), byte_text(arena.sink_bytes()),
      byte_text(arena.state_bytes), counted(costs.pages_of(context_tokens), "page"),
      byte_text(arena.page_bytes), byte_text(plan.budget_bytes),
      instead.empty() ? "none" : instead);
}

std::int64_t default_memory_budget(const CacheCosts& costs, const SystemMemory& memory,
                                   std::int64_t weight_bytes, const BudgetRule& rule) {
  const auto share_of_available =
      static_cast<std::int64_t>(static_cast<double>(memory.available_bytes) * rule.memory_fraction);
  const std::int64_t requests = 2 * rule.max_running;
  const std::int64_t useful = sum(costs.geometry(0).sink_bytes(),
                                  demand_bytes(costs, costs.context_limit_tokens, requests));
  return std::clamp<std::int64_t>(share_of_available - weight_bytes, 0, useful);
}

}  // namespace tandem
