// In which order waiting requests are picked, by the names that SGLang's users know.
#pragma once

#include <string_view>

#include "base/status.h"

namespace tandem {

enum class QueuePolicy {
  kAuto,             // deadlines, then fair turns of tenants, then time saved and time waited
  kFirstCome,        // fcfs
  kLongestPrefix,    // lpm: the most time saved by the cache first
  kResponseRatio,    // hrrn: the most time waited for the time still needed first
  kShortestPrefill,  // shortest-prefill-first
  kLongestOutput,    // lof: the highest limit of new tokens first
  kRandom,
};

// `auto`, `fcfs`, `lpm`, `hrrn`, `shortest-prefill-first`, `lof` or `random`; also `dfs-weight`,
// which is answered with `lpm`: both serve a prefix's requests one after the other.
Result<QueuePolicy> parse_queue_policy(std::string_view name);

}  // namespace tandem
