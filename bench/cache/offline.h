// What a cache could earn that knew the trace beforehand.
#pragma once

#include <cstdint>

#include "cache/agent_workload.h"

namespace tandem {

// Everything is counted in tokens of rows. A state may stand at the last grid point of any segment,
// which is where a turn that replays a fork can leave one, whatever the decode boundary. Rows are
// kept only where they lead to a state. What a turn passes through it can leave behind, but no more
// than the budget is kept from one turn to the next.
struct OfflineProblem {
  double budget_tokens = 0;
  double state_tokens = 0;
  std::int64_t grid_tokens = 64;
  std::size_t first_counted = 0;  // turns before it earn nothing
};

// A feasible schedule: of the states it could keep it gives up those whose coming uses save the
// fewest tokens per byte and turn (Belady's rule with sizes and gains).
Earnings greedy_offline(const AgentWorkload& workload, const OfflineProblem& problem);

// Tokens hit by the best schedule there is, restoring from any state or none. Time and memory grow
// exponentially with the states that could be used: at most 16.
double exact_offline(const AgentWorkload& workload, const OfflineProblem& problem);

// No schedule hits more tokens. What a turn keeps must be held since the turn before that passed
// through it; the budget is relaxed to a price per token and turn that may change over time, and
// the best prices found by descent.
double offline_bound(const AgentWorkload& workload, const OfflineProblem& problem);

}  // namespace tandem
