// A trace seen from its end, as the offline policies need it.
#pragma once

#include <cstddef>
#include <vector>

#include "cache/agent_workload.h"

namespace tandem {

struct OfflineTrace {
  OfflineTrace(const AgentWorkload& source, std::int64_t grid_tokens);

  // Where a segment's state stands; 0 if no grid point lies in the segment.
  std::int64_t depth(int segment) const { return depths[static_cast<std::size_t>(segment)]; }
  // The turns, ascending, whose prompts go on from the segment.
  const std::vector<std::size_t>& passes(int segment) const {
    return passing[static_cast<std::size_t>(segment)];
  }

  const AgentWorkload& workload;
  std::vector<std::int64_t> depths;
  std::vector<std::vector<std::size_t>> passing;
};

}  // namespace tandem
