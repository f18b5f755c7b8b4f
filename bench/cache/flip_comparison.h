// One arena against every static split, under a load that flips.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/flip_simulation.h"

namespace tandem {

struct FlipComparison {
  std::vector<FlipLoad> phases;
  std::vector<PhaseResult> joint;
  // Of each phase for itself, the split that answers most tokens a second in it.
  std::vector<PhaseResult> best_split;
  std::vector<std::int64_t> best_states;  // its state slots
  // The one split whose worst phase, next to that phase's best split, is best.
  std::vector<PhaseResult> fixed_split;
  std::int64_t fixed_states = 0;
};

// Kimi K3 on one of eight ranks, whose budget just holds four requests of 500,000 tokens.
// `page_tokens`: 64 where every rank has all rows, 512 where it has an eighth of them.
// 64 clients with short requests, 4 with long ones, and back, each for `phase_ms` of simulated
// time.
FlipComparison compare_flips(std::int64_t page_tokens, double phase_ms);

}  // namespace tandem
