#include "schedule/queue_policy.h"

#include <array>
#include <utility>

namespace tandem {
namespace {

constexpr std::array<std::pair<std::string_view, QueuePolicy>, 8> kNames = {{
    {"auto", QueuePolicy::kAuto},
    {"fcfs", QueuePolicy::kFirstCome},
    {"lpm", QueuePolicy::kLongestPrefix},
    {"dfs-weight", QueuePolicy::kLongestPrefix},
    {"hrrn", QueuePolicy::kResponseRatio},
    {"shortest-prefill-first", QueuePolicy::kShortestPrefill},
    {"lof", QueuePolicy::kLongestOutput},
    {"random", QueuePolicy::kRandom},
}};

}  // namespace

Result<QueuePolicy> parse_queue_policy(std::string_view name) {
  std::string known;
  for (const auto& [spelling, policy] : kNames) {
    if (spelling == name) return policy;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", spelling);
  }
  return invalid("unknown schedule policy '{}'; known are {}", name, known);
}

}  // namespace tandem
