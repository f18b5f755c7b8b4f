// The real prefix cache, on the real arena, under a trace of agents.
#pragma once

#include <cstdint>

#include "cache/agent_workload.h"
#include "memory/prefix_counters.h"

namespace tandem {

// What a state and a token weigh, and where states may stand.
struct CacheShape {
  std::int64_t state_bytes = 0;
  std::int64_t page_bytes = 0;
  std::int64_t page_tokens = 64;  // tokens of the prompt, whichever rank has their rows
  std::int64_t grid_tokens = 64;

  double row_bytes() const {
    return static_cast<double>(page_bytes) / static_cast<double>(page_tokens);
  }
  // How many tokens' rows weigh as much as a state.
  double state_tokens() const { return static_cast<double>(state_bytes) / row_bytes(); }
};

struct CacheReplayOptions {
  CacheShape shape = {};
  double budget_tokens = 0;  // rows of so many tokens would fill the arena
  std::int64_t min_spacing_tokens = 32'768;
  std::int64_t turn_ms = 1000;  // time from one turn to the next: the frequencies' decay needs one
};

struct CacheReplay {
  Earnings earnings;
  PrefixCounters counters;
};

// One request after the other: match, lock, make room, donate the prompt with the states that
// plan_checkpoints asks for, donate the answer with the state of its last decode boundary (a
// multiple of 256 tokens and of the grid), let go. No request is running while another one is
// served, and working states are not counted.
CacheReplay replay_cache(const AgentWorkload& workload, const CacheReplayOptions& options);

}  // namespace tandem
