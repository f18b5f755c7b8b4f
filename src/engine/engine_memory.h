// How an engine lays out its memory for one model.
#pragma once

#include "engine/engine.h"
#include "memory/arena_geometry.h"
#include "schedule/cost_table.h"

namespace tandem {

// Cached prefixes end at multiples of this many tokens, which are whole pages, and whole chunks of
// the KDA kernels: a prompt that goes on from a state then sees the same chunks as one computed
// from its start.
std::int64_t cache_grid_tokens(std::int64_t page_tokens);

// The arena for these options; errors as Engine::create.
Result<ArenaGeometry> engine_geometry(const ModelSpec& spec, const StateLayout& layout,
                                      const EngineOptions& options);

// Until steps are measured. Only the proportions matter to eviction; the rest is learnt in the
// first few steps.
CostSeed assumed_cost();

}  // namespace tandem
