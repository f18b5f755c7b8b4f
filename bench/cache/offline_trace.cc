#include "cache/offline_trace.h"

namespace tandem {

OfflineTrace::OfflineTrace(const AgentWorkload& source, std::int64_t grid_tokens)
    : workload(source), passing(source.segments.size()) {
  for (const Segment& segment : source.segments) {
    const std::int64_t depth = segment.end_tokens - segment.end_tokens % grid_tokens;
    depths.push_back(depth > segment.start_tokens ? depth : 0);
  }
  for (std::size_t turn = 0; turn < source.turns.size(); ++turn) {
    int segment = source.at(source.turns[turn].message).parent;
    for (; segment >= 0; segment = source.at(segment).parent) {
      passing[static_cast<std::size_t>(segment)].push_back(turn);
    }
  }
}

}  // namespace tandem
