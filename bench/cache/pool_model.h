// Other policies under the same trace, on a model that knows segments only: states in one pool,
// rows in another, and the split between them fixed.
#pragma once

#include <cstdint>

#include "cache/agent_workload.h"

namespace tandem {

enum class StateOrder : std::uint8_t {
  kOldestPath,  // least recently used; a use counts for every state on the path
  kTimeSaved,   // greedy dual size frequency, as EvictionOrder has it, without decay
};
enum class RowOrder : std::uint8_t { kOldest, kTimeSaved };
enum class StatePlaces : std::uint8_t {
  kChunkEnds,  // every chunk of a prefill, its end, the answer's last decode boundary
  kPlanned,    // as plan_checkpoints: branch, end, spaced, answer
};

struct PoolPolicy {
  StateOrder states = StateOrder::kTimeSaved;
  RowOrder rows = RowOrder::kOldest;
  StatePlaces places = StatePlaces::kPlanned;
  double state_share = 0;  // of the budget
  std::int64_t grid_tokens = 64;
  std::int64_t spacing_tokens = 32'768;  // of chunk ends, too
};

// What the scheduler of a well known server does: chunks of 4,096 tokens, whole-path touch, 47 % of
// the memory for states.
PoolPolicy reference_like_policy(std::int64_t grid_tokens);

// `state_tokens`: how many tokens' rows weigh as much as a state. An infinite budget is allowed.
// Segments' rows come and go as a whole, and a request's own path may exceed the pool of rows while
// it is served.
Earnings replay_pools(const AgentWorkload& workload, const PoolPolicy& policy, double budget_tokens,
                      double state_tokens);

}  // namespace tandem
