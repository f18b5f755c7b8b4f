#include "engine/engine_memory.h"

#include <numeric>

namespace tandem {
namespace {

// The longest chunk of the KDA kernels on this backend.
constexpr std::int64_t kKernelChunk = 16;

}  // namespace

std::int64_t cache_grid_tokens(std::int64_t page_tokens) {
  return std::lcm(kKernelChunk, page_tokens);
}

Result<ArenaGeometry> engine_geometry(const ModelSpec& spec, const StateLayout& layout,
                                      const EngineOptions& options) {
  ArenaGeometry geometry{.budget_bytes = options.memory_bytes,
                         .state_bytes = entry_bytes(layout.state_bytes),
                         .page_bytes = entry_bytes(layout.row_bytes * options.page_tokens)};
  if (geometry.budget_bytes == 0) {
    const std::int64_t pages =
        (spec.context_length + options.page_tokens - 1) / options.page_tokens;
    const std::int64_t request = geometry.state_bytes + pages * geometry.page_bytes;
    geometry.budget_bytes = geometry.sink_bytes() + 2 * options.max_running * request;
  }
  TRY(geometry.check());
  return geometry;
}

CostSeed assumed_cost() {
  return {.fixed_ms = 1, .token_ms = 0.4, .attention_ms = 4e-6, .row_ms = 1};
}

}  // namespace tandem
