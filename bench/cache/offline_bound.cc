// Lagrangian relaxation. A turn that starts at depth d needs the rows before d, each held since the
// last turn that passed through it, and one state, held since the last turn that passed d. These
// intervals belong to this turn alone, whatever the other turns do; so with a price on every token
// and turn held, each turn can choose its depth by itself, and the sum of their profits plus the
// price of the whole budget bounds what any schedule hits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cache/offline.h"
#include "cache/offline_trace.h"

namespace tandem {
namespace {

constexpr std::size_t kBucketTurns = 25;  // share a price
constexpr int kDescents = 400;

// One segment on the way of one turn.
struct Level {
  std::size_t since = 0;  // the last turn that passed through it
  double rows = 0;        // of the segment
  double rows_to_state = 0;
  double hit = 0;  // depth of the state; 0: none
};
struct Choices {
  std::size_t turn = 0;
  std::vector<Level> levels;  // shallow first
};

class PriceSearch {
 public:
  PriceSearch(const AgentWorkload& workload, const OfflineProblem& problem)
      : problem_(problem), turns_(workload.turns.size()) {
    const OfflineTrace trace(workload, problem.grid_tokens);
    constexpr std::size_t kNever = ~std::size_t{0};
    std::vector<std::size_t> passed(workload.segments.size(), kNever);
    for (std::size_t turn = 0; turn < turns_; ++turn) {
      Choices choices{.turn = turn, .levels = {}};
      const std::vector<int> path = workload.path(workload.turns[turn].answer);
      for (const int segment : path) {
        std::size_t& since = passed[static_cast<std::size_t>(segment)];
        if (since != kNever) choices.levels.push_back(level(trace, segment, since));
        since = turn;
      }
      if (turn >= problem.first_counted) choices_.push_back(std::move(choices));
    }
  }

  double run() {
    std::vector<double> prices(turns_ / kBucketTurns + 1, 0);
    std::vector<double> slack(prices.size());
    double best = bound(prices, slack);
    std::vector<double> best_prices = prices;
    for (double price = 1e-6; price < 1; price *= 1.25) {
      std::fill(prices.begin(), prices.end(), price);
      const double now = bound(prices, slack);
      if (now < best) {
        best = now;
        best_prices = prices;
      }
    }
    // Subgradient steps towards a value a little below the best one found.
    prices = best_prices;
    double ambition = 0.01;
    for (int i = 0; i < kDescents; ++i) {
      const double now = bound(prices, slack);
      if (now < best) {
        best = now;
        best_prices = prices;
      } else if (i % 20 == 19) {
        ambition *= 0.7;
        prices = best_prices;
        continue;
      }
      double norm = 0;
      for (const double s : slack) norm += s * s;
      if (norm == 0) break;
      const double step = (now - best * (1 - ambition)) / norm;
      for (std::size_t b = 0; b < prices.size(); ++b) {
        prices[b] = std::max(0.0, prices[b] - step * slack[b]);
      }
    }
    return best;
  }

 private:
  static Level level(const OfflineTrace& trace, int segment, std::size_t since) {
    const Segment& rows = trace.workload.at(segment);
    const auto hit = static_cast<double>(trace.depth(segment));
    return {.since = since,
            .rows = static_cast<double>(rows.tokens()),
            .rows_to_state = hit - static_cast<double>(rows.start_tokens),
            .hit = hit};
  }

  // Also by how much the budget of each bucket exceeds what is held at these prices: a subgradient.
  double bound(const std::vector<double>& prices, std::vector<double>& slack) const {
    std::vector<double> paid(turns_ + 1, 0);  // for one token held from the first turn on
    double sum = 0;
    std::fill(slack.begin(), slack.end(), 0);
    for (std::size_t turn = problem_.first_counted; turn < turns_; ++turn) {
      const std::size_t bucket = turn / kBucketTurns;
      paid[turn + 1] = paid[turn] + prices[bucket];
      sum += prices[bucket] * problem_.budget_tokens;
      slack[bucket] += problem_.budget_tokens;
    }
    for (const Choices& choices : choices_) {
      const auto price = [&](const Level& l) {
        return paid[choices.turn] - paid[std::max(l.since, problem_.first_counted)];
      };
      double rows = 0;
      double profit = 0;
      std::size_t chosen = choices.levels.size();
      for (std::size_t k = 0; k < choices.levels.size(); ++k) {
        const Level& l = choices.levels[k];
        const double held = price(l);
        const double cost = rows + (l.rows_to_state + problem_.state_tokens) * held;
        if (l.hit > 0 && l.hit - cost > profit) {
          profit = l.hit - cost;
          chosen = k;
        }
        rows += l.rows * held;
      }
      sum += profit;
      if (chosen < choices.levels.size()) take(choices, chosen, slack);
    }
    return sum;
  }

  void take(const Choices& choices, std::size_t chosen, std::vector<double>& slack) const {
    for (std::size_t k = 0; k <= chosen; ++k) {
      const Level& l = choices.levels[k];
      const double held = k < chosen ? l.rows : l.rows_to_state + problem_.state_tokens;
      for (std::size_t turn = std::max(l.since, problem_.first_counted); turn < choices.turn;) {
        const std::size_t bucket = turn / kBucketTurns;
        const std::size_t end = std::min(choices.turn, (bucket + 1) * kBucketTurns);
        slack[bucket] -= held * static_cast<double>(end - turn);
        turn = end;
      }
    }
  }

  const OfflineProblem problem_;
  const std::size_t turns_;
  std::vector<Choices> choices_;  // of the turns that count
};

}  // namespace

double offline_bound(const AgentWorkload& workload, const OfflineProblem& problem) {
  return PriceSearch(workload, problem).run();
}

}  // namespace tandem
