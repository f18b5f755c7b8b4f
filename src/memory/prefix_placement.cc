#include "memory/prefix_placement.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

// Keeps the list ascending; the first reason to ask for a depth stays.
void add(std::vector<PlannedCheckpoint>& planned, std::int64_t depth, CheckpointReason reason) {
  const auto at = std::lower_bound(
      planned.begin(), planned.end(), depth,
      [](const PlannedCheckpoint& p, std::int64_t wanted) { return p.depth_tokens < wanted; });
  if (at != planned.end() && at->depth_tokens == depth) return;
  planned.insert(at, {.depth_tokens = depth, .reason = reason});
}

}  // namespace

std::vector<PlannedCheckpoint> plan_checkpoints(const PrefixMatch& match,
                                                std::int64_t prompt_tokens,
                                                std::int64_t history_tokens,
                                                const PlacementOptions& options) {
  const std::int64_t grid = options.grid_tokens;
  CHECK(grid > 0 && options.min_spacing_tokens > 0, "no checkpoints on a grid of {} spaced {}",
        grid, options.min_spacing_tokens);
  const auto on_grid = [grid](std::int64_t tokens) { return tokens - tokens % grid; };
  const std::int64_t last = on_grid(prompt_tokens);
  std::vector<PlannedCheckpoint> planned;
  const auto ask = [&](std::int64_t depth, CheckpointReason reason) {
    if (depth > match.usable_tokens && depth <= last) add(planned, depth, reason);
  };
  ask(match.branch_tokens, CheckpointReason::kBranch);
  ask(last, CheckpointReason::kTurn);
  ask(on_grid(history_tokens), CheckpointReason::kTurn);
  if (last == prompt_tokens) ask(last - grid, CheckpointReason::kGuard);

  const std::int64_t spacing = on_grid(options.min_spacing_tokens + grid - 1);
  const std::vector<PlannedCheckpoint> wanted = planned;
  std::int64_t before = match.usable_tokens;
  for (const PlannedCheckpoint& next : wanted) {
    for (std::int64_t depth = before + spacing; depth < next.depth_tokens; depth += spacing) {
      ask(depth, CheckpointReason::kChunk);
    }
    before = next.depth_tokens;
  }
  return planned;
}

}  // namespace tandem
