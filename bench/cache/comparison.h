// The real cache beside other policies on one trace.
#pragma once

#include "cache/agent_workload.h"
#include "cache/cache_replay.h"
#include "cache/pool_model.h"

namespace tandem {

// A way to spread Kimi K3 over eight ranks, and how much of the trace the cache holds.
struct Deployment {
  const char* name;
  CacheShape shape;  // on one rank
  double share = 0;  // budget in tokens of rows / distinct tokens of the trace
};
// Every rank has all rows.
Deployment tensor_parallel_8();
// Every rank has an eighth of the rows, so that a page of 64 rows holds 512 tokens and a state
// weighs eight times as many. `page_tokens` 64 is the grid of the Python study.
Deployment context_parallel_8(std::int64_t page_tokens);

struct Comparison {
  Earnings infinite;   // the real cache in an arena that holds everything
  Earnings reference;  // reference_like_policy
  PoolPolicy split;    // the best static one found, by tokens hit
  Earnings best_split;
  CacheReplay joint;         // the real cache within the budget
  Earnings offline;          // greedy_offline
  double offline_bound = 0;  // hit rate that no schedule exceeds
};

// Splits tried: shares of 5 to 75 %, both row orders, chunk ends 8,192 and 32,768 apart.
Comparison compare(const AgentWorkload& workload, const Deployment& deployment);

}  // namespace tandem
