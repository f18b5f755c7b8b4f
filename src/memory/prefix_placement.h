// Where a prompt's checkpoints go.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/prefix_match.h"

namespace tandem {

struct PlacementOptions {
  std::int64_t grid_tokens = 64;
  // Of two checkpoints in a long prompt that nothing else asks for.
  std::int64_t min_spacing_tokens = 32'768;
};

struct PlannedCheckpoint {
  std::int64_t depth_tokens = 0;
  CheckpointReason reason = CheckpointReason::kTurn;

  bool operator==(const PlannedCheckpoint&) const = default;
};

// The checkpoints to take while a prompt of `prompt_tokens` is computed from match.usable_tokens,
// in ascending order: all on the grid, behind usable_tokens and at most at prompt_tokens.
//
//  - the branch point: where prompts departed inside text without a state;
//  - turn ends: the last grid point of the prompt, and that of its first `history_tokens`, where
//    the history ends and what is asked for this time begins (0: unknown);
//  - one grid step before the end, if the end is on the grid: the same prompt again may use all but
//    its last token;
//  - min_spacing_tokens after the checkpoint before, as often as that leaves room.
//
// One depth is named once, by the first of these reasons that asks for it. A pure function.
std::vector<PlannedCheckpoint> plan_checkpoints(const PrefixMatch& match,
                                                std::int64_t prompt_tokens,
                                                std::int64_t history_tokens,
                                                const PlacementOptions& options);

}  // namespace tandem
