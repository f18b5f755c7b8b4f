#include <algorithm>
#include <limits>
#include <vector>

#include "base/check.h"
#include "cache/offline.h"
#include "cache/offline_trace.h"

namespace tandem {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();
constexpr std::size_t kMaxStates = 16;

// Sets of states are bit masks over the segments whose state could serve anybody.
class ExactSchedule {
 public:
  ExactSchedule(const AgentWorkload& workload, const OfflineProblem& problem)
      : trace_(workload, problem.grid_tokens), problem_(problem) {
    for (int segment = 0; segment < static_cast<int>(workload.segments.size()); ++segment) {
      if (trace_.depth(segment) > 0 && !trace_.passes(segment).empty()) useful_.push_back(segment);
    }
    CHECK(useful_.size() <= kMaxStates, "{} useful states are too many", useful_.size());
    for (std::size_t mask = 0; mask < masks(); ++mask) {
      fits_.push_back(weight(mask) <= problem_.budget_tokens);
    }
  }

  double run() {
    std::vector<double> best(masks(), kImpossible);  // tokens hit so far, by states kept
    best[0] = 0;
    for (std::size_t turn = 0; turn < trace_.workload.turns.size(); ++turn) serve(turn, best);
    return *std::max_element(best.begin(), best.end());
  }

 private:
  std::size_t masks() const { return std::size_t{1} << useful_.size(); }

  double weight(std::size_t mask) const {
    double tokens = 0;
    std::vector<std::int64_t> rows(trace_.workload.segments.size());
    for (std::size_t bit = 0; bit < useful_.size(); ++bit) {
      if ((mask >> bit & 1) == 0) continue;
      tokens += problem_.state_tokens;
      std::int64_t end = trace_.depth(useful_[bit]);
      for (int segment = useful_[bit]; segment >= 0; segment = trace_.workload.at(segment).parent) {
        std::int64_t& held = rows[static_cast<std::size_t>(segment)];
        held = std::max(held, end - trace_.workload.at(segment).start_tokens);
        end = trace_.workload.at(segment).start_tokens;
      }
    }
    for (const std::int64_t held : rows) tokens += static_cast<double>(held);
    return tokens;
  }

  void serve(std::size_t turn, std::vector<double>& best) const {
    const AgentWorkload& workload = trace_.workload;
    const std::vector<int> path = workload.path(workload.turns[turn].answer);
    const std::int64_t prompt = workload.at(workload.turns[turn].message).end_tokens;
    std::vector<std::size_t> on_path;  // bits, shallow first
    for (const int segment : path) {
      const auto at = std::find(useful_.begin(), useful_.end(), segment);
      if (at != useful_.end()) on_path.push_back(static_cast<std::size_t>(at - useful_.begin()));
    }
    std::vector<double> next(masks(), kImpossible);
    for (std::size_t mask = 0; mask < masks(); ++mask) {
      if (best[mask] == kImpossible) continue;
      // Restores from each state on the path that is there, then from none: all behind it passes
      // by.
      std::size_t passed = 0;
      for (std::size_t i = on_path.size() + 1; i-- > 0;) {
        const std::size_t bit = i == 0 ? 0 : on_path[i - 1];
        const bool is_there = i == 0 || (mask >> bit & 1) != 0;
        const std::int64_t hit = i == 0 ? 0 : trace_.depth(useful_[bit]);
        if (is_there && hit < prompt) {
          const double earned = turn < problem_.first_counted ? 0 : static_cast<double>(hit);
          double& after = next[mask | passed];
          after = std::max(after, best[mask] + earned);
        }
        passed |= i == 0 ? 0 : std::size_t{1} << bit;
      }
    }
    // Whatever can be kept, any part of it can.
    for (std::size_t bit = 0; bit < useful_.size(); ++bit) {
      for (std::size_t mask = 0; mask < masks(); ++mask) {
        if ((mask >> bit & 1) == 0) next[mask] = std::max(next[mask], next[mask | 1u << bit]);
      }
    }
    for (std::size_t mask = 0; mask < masks(); ++mask) {
      if (!fits_[mask]) next[mask] = kImpossible;
    }
    best = std::move(next);
  }

  const OfflineTrace trace_;
  const OfflineProblem problem_;
  std::vector<int> useful_;  // segments, by bit
  std::vector<bool> fits_;   // by mask
};

}  // namespace

double exact_offline(const AgentWorkload& workload, const OfflineProblem& problem) {
  return ExactSchedule(workload, problem).run();
}

}  // namespace tandem
