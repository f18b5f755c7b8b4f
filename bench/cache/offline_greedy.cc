#include <algorithm>
#include <vector>

#include "cache/offline.h"
#include "cache/offline_trace.h"

namespace tandem {
namespace {

constexpr int kNone = -1;

class GreedySchedule {
 public:
  GreedySchedule(const AgentWorkload& workload, const OfflineProblem& problem)
      : trace_(workload, problem.grid_tokens),
        problem_(problem),
        is_resident_(workload.segments.size()),
        states_below_(workload.segments.size()),
        server_(workload.turns.size(), kNone) {}

  Earnings run() {
    Earnings earnings;
    const AgentWorkload& workload = trace_.workload;
    for (now_ = 0; now_ < workload.turns.size(); ++now_) {
      const Turn& turn = workload.turns[now_];
      const std::int64_t hit = server_[now_] == kNone ? 0 : trace_.depth(server_[now_]);
      if (now_ >= problem_.first_counted) {
        earnings.add(workload.at(turn.message).end_tokens, hit, hit);
      }
      for (const int segment : workload.path(turn.answer)) {
        if (trace_.depth(segment) > hit) keep(segment);
      }
      while (kept_tokens_ > problem_.budget_tokens) give_up_least();
    }
    return earnings;
  }

 private:
  char& resident(int segment) { return is_resident_[static_cast<std::size_t>(segment)]; }
  int parent(int segment) const { return trace_.workload.at(segment).parent; }
  int& below(int segment) { return states_below_[static_cast<std::size_t>(segment)]; }

  int fallback(int segment) {
    int above = parent(segment);
    while (above != kNone && resident(above) == 0) above = parent(above);
    return above;
  }

  // The state, and the rows that lead to no other one.
  double freed_by(int segment) {
    double tokens = problem_.state_tokens;
    if (below(segment) > 0) return tokens;
    const AgentWorkload& workload = trace_.workload;
    tokens += static_cast<double>(trace_.depth(segment) - workload.at(segment).start_tokens);
    for (int above = parent(segment); above != kNone && below(above) == 1; above = parent(above)) {
      const Segment& rows = workload.at(above);
      if (resident(above) != 0)
        return tokens + static_cast<double>(rows.end_tokens - trace_.depth(above));
      tokens += static_cast<double>(rows.tokens());
    }
    return tokens;
  }

  void keep(int segment) {
    if (resident(segment) != 0) return;
    resident(segment) = 1;
    kept_.push_back(segment);
    for (int above = parent(segment); above != kNone; above = parent(above)) ++below(above);
    kept_tokens_ += freed_by(segment);
    const auto& passes = trace_.passes(segment);
    for (auto at = std::upper_bound(passes.begin(), passes.end(), now_); at != passes.end(); ++at) {
      const int before = server_[*at];
      if (before == kNone || trace_.depth(before) < trace_.depth(segment)) server_[*at] = segment;
    }
  }

  // Tokens saved per byte and turn until the use that makes the most of it.
  double value(int segment) {
    const auto& passes = trace_.passes(segment);
    auto at = std::upper_bound(passes.begin(), passes.end(), now_);
    double uses = 0;
    double rate = 0;
    for (; at != passes.end(); ++at) {
      if (server_[*at] != segment || *at < problem_.first_counted) continue;
      ++uses;
      rate = std::max(rate, uses / static_cast<double>(*at - now_));
    }
    if (rate == 0) return 0;
    const int above = fallback(segment);
    const std::int64_t saved = trace_.depth(segment) - (above == kNone ? 0 : trace_.depth(above));
    return rate * static_cast<double>(saved) / freed_by(segment);
  }

  void give_up_least() {
    std::size_t least = 0;
    double least_value = value(kept_[0]);
    for (std::size_t i = 1; i < kept_.size() && least_value > 0; ++i) {
      const double now = value(kept_[i]);
      if (now < least_value) {
        least_value = now;
        least = i;
      }
    }
    const int segment = kept_[least];
    kept_[least] = kept_.back();
    kept_.pop_back();
    kept_tokens_ -= freed_by(segment);
    resident(segment) = 0;
    for (int above = parent(segment); above != kNone; above = parent(above)) --below(above);
    const int next = fallback(segment);
    const auto& passes = trace_.passes(segment);
    for (auto at = std::upper_bound(passes.begin(), passes.end(), now_); at != passes.end(); ++at) {
      if (server_[*at] == segment) server_[*at] = next;
    }
  }

  const OfflineTrace trace_;
  const OfflineProblem problem_;
  std::size_t now_ = 0;
  std::vector<char> is_resident_;  // by segment
  std::vector<int> states_below_;  // by segment: resident states further down
  std::vector<int> server_;        // by turn: the deepest resident state on its way
  std::vector<int> kept_;          // resident states
  double kept_tokens_ = 0;         // states and the rows that lead to them
};

}  // namespace

Earnings greedy_offline(const AgentWorkload& workload, const OfflineProblem& problem) {
  return GreedySchedule(workload, problem).run();
}

}  // namespace tandem
