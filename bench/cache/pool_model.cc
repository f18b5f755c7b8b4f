#include "cache/pool_model.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace tandem {
namespace {

std::int64_t on_grid(std::int64_t tokens, std::int64_t grid) { return tokens - tokens % grid; }

// A state's place. Ordered so that ties in an order fall to the older segment.
using Place = std::pair<int, std::int64_t>;  // segment, depth

struct StateRecord {
  double used_at = 0;  // turn
  double frequency = 1;
  double base = 0;
};
struct RowRecord {
  bool is_resident = false;
  double used_at = 0;
  double frequency = 0;
  double base = 0;
  int resident_children = 0;
};

// Least first. Entries go stale and are dropped when they come to the top.
template <typename Key>
using Order = std::priority_queue<std::tuple<double, Key, double>,
                                  std::vector<std::tuple<double, Key, double>>, std::greater<>>;

class PoolReplay {
 public:
  PoolReplay(const AgentWorkload& workload, const PoolPolicy& policy, double budget, double state)
      : workload_(workload),
        policy_(policy),
        state_tokens_(state),
        state_budget_(policy.state_share * budget),
        row_budget_((1 - policy.state_share) * budget),
        states_(workload.segments.size()),
        rows_(workload.segments.size()) {}

  Earnings run() {
    Earnings earnings;
    for (std::size_t i = 0; i < workload_.turns.size(); ++i) {
      now_ = static_cast<double>(i + 1);
      const Turn& turn = workload_.turns[i];
      const std::int64_t prompt = workload_.at(turn.message).end_tokens;
      const auto [rows, hit] = serve(turn, prompt);
      if (i >= warm_up(workload_)) earnings.add(prompt, rows, hit);
    }
    return earnings;
  }

 private:
  std::pair<std::int64_t, std::int64_t> serve(const Turn& turn, std::int64_t prompt) {
    const std::vector<int> path = workload_.path(turn.answer);
    std::int64_t rows = 0;
    for (const int segment : path) {
      if (!row(segment).is_resident) break;
      rows = workload_.at(segment).end_tokens;
    }
    rows = std::min(rows, prompt - 1);
    Place best{-1, 0};
    for (const int segment : path) {
      for (const auto& [depth, record] : states_[index(segment)]) {
        if (depth <= rows && depth > best.second) best = {segment, depth};
      }
    }
    locked_.clear();
    if (best.first >= 0) use(best);
    if (policy_.states == StateOrder::kOldestPath) touch_path(path, best.second);
    for (const int segment : path) hold_rows(segment);
    for (const std::int64_t depth : places(turn, prompt, rows, best.second)) plant(path, depth);
    shrink(path);
    return {rows, best.second};
  }

  void use(Place place) {
    StateRecord& record = states_[index(place.first)].at(place.second);
    record.used_at = now_;
    ++record.frequency;
    record.base = state_clock_;
    push(place);
    locked_.insert(place);
  }

  void touch_path(const std::vector<int>& path, std::int64_t depth) {
    for (const int segment : path) {
      for (auto& [at, record] : states_[index(segment)]) {
        if (at > depth) continue;
        record.used_at = now_;
        push({segment, at});
      }
    }
  }

  void hold_rows(int segment) {
    RowRecord& record = row(segment);
    if (!record.is_resident) {
      const int parent = workload_.at(segment).parent;
      if (parent >= 0) ++row(parent).resident_children;
      row_tokens_ += static_cast<double>(workload_.at(segment).tokens());
      record.is_resident = true;
      record.frequency = 0;
    }
    record.used_at = now_;
    record.frequency = record.frequency * 0.98 + 1;
    record.base = row_clock_;
    row_order_.emplace(value(segment), segment, now_);
  }

  std::set<std::int64_t> places(const Turn& turn, std::int64_t prompt, std::int64_t rows,
                                std::int64_t hit) const {
    const std::int64_t grid = policy_.grid_tokens;
    const std::int64_t spacing = policy_.spacing_tokens;
    std::set<std::int64_t> depths = {
        on_grid(workload_.at(turn.answer).end_tokens, decode_grid(grid))};
    if (policy_.places == StatePlaces::kChunkEnds) {
      for (std::int64_t d = hit + spacing; d < prompt; d += spacing)
        depths.insert(on_grid(d, grid));
      depths.insert(hit + on_grid(prompt - hit, grid));
    } else {
      for (std::int64_t d = (hit / spacing + 1) * spacing; d < prompt; d += spacing) {
        depths.insert(d);
      }
      depths.insert(on_grid(rows, grid));
      depths.insert(on_grid(prompt, grid));
    }
    depths.erase(depths.begin(), depths.upper_bound(hit));
    return depths;
  }

  void plant(const std::vector<int>& path, std::int64_t depth) {
    const auto at = std::find_if(path.begin(), path.end(), [&](int segment) {
      return depth <= workload_.at(segment).end_tokens;
    });
    const Place place{*at, depth};
    locked_.insert(place);
    const StateRecord fresh{.used_at = now_, .base = state_clock_};
    if (!states_[index(*at)].try_emplace(depth, fresh).second) return;
    ++state_count_;
    push(place);
  }

  void shrink(const std::vector<int>& path) {
    const bool own_fit = static_cast<double>(locked_.size()) * state_tokens_ < state_budget_;
    if (!own_fit) locked_.clear();
    while (static_cast<double>(state_count_) * state_tokens_ > state_budget_) {
      if (!evict_state()) break;
    }
    const std::set<int> kept(path.begin(), path.end());
    while (row_tokens_ > row_budget_) {
      if (!evict_rows(kept)) break;
    }
  }

  bool evict_state() {
    std::vector<Order<Place>::value_type> kept;
    bool found = false;
    while (!found && !state_order_.empty()) {
      const auto [key, place, used_at] = state_order_.top();
      state_order_.pop();
      auto& of_segment = states_[index(place.first)];
      const auto at = of_segment.find(place.second);
      if (at == of_segment.end() || at->second.used_at != used_at) continue;
      const double exact = value(place);
      if (exact > key * 1.0000001 + 1e-9) {
        state_order_.emplace(exact, place, used_at);
      } else if (locked_.contains(place)) {
        kept.emplace_back(key, place, used_at);
      } else {
        of_segment.erase(at);
        --state_count_;
        state_clock_ = std::max(state_clock_, exact);
        found = true;
      }
    }
    for (const auto& entry : kept) state_order_.push(entry);
    return found;
  }

  // Of a leaf, together with the states in it.
  bool evict_rows(const std::set<int>& path) {
    std::vector<Order<int>::value_type> kept;
    bool found = false;
    while (!found && !row_order_.empty()) {
      const auto entry = row_order_.top();
      row_order_.pop();
      const auto [key, segment, used_at] = entry;
      RowRecord& record = row(segment);
      if (!record.is_resident || record.used_at != used_at) continue;
      if (record.resident_children > 0 || path.contains(segment)) {
        kept.push_back(entry);
        continue;
      }
      record.is_resident = false;
      row_tokens_ -= static_cast<double>(workload_.at(segment).tokens());
      const int parent = workload_.at(segment).parent;
      if (parent >= 0) --row(parent).resident_children;
      state_count_ -= std::exchange(states_[index(segment)], {}).size();
      row_clock_ = std::max(row_clock_, key);
      found = true;
    }
    for (const auto& entry : kept) row_order_.push(entry);
    return found;
  }

  double value(Place place) const {
    const StateRecord& record = states_[index(place.first)].at(place.second);
    if (policy_.states == StateOrder::kOldestPath) return record.used_at;
    const double saved = prefill_time(static_cast<double>(place.second)) -
                         prefill_time(static_cast<double>(fallback(place)));
    return record.base + record.frequency * saved / state_tokens_;
  }
  double value(int segment) const {
    const RowRecord& record = row(segment);
    if (policy_.rows == RowOrder::kOldest) return record.used_at;
    const Segment& rows = workload_.at(segment);
    const double saved = prefill_time(static_cast<double>(rows.end_tokens)) -
                         prefill_time(static_cast<double>(rows.start_tokens));
    return record.base + record.frequency * saved / static_cast<double>(rows.tokens());
  }

  std::int64_t fallback(Place place) const {
    for (int segment = place.first; segment >= 0; segment = workload_.at(segment).parent) {
      const auto& of_segment = states_[index(segment)];
      const auto at = of_segment.lower_bound(place.second);
      if (at != of_segment.begin()) return std::prev(at)->first;
    }
    return 0;
  }

  void push(Place place) {
    state_order_.emplace(value(place), place, states_[index(place.first)].at(place.second).used_at);
  }
  static std::size_t index(int segment) { return static_cast<std::size_t>(segment); }
  RowRecord& row(int segment) { return rows_[index(segment)]; }
  const RowRecord& row(int segment) const { return rows_[index(segment)]; }

  const AgentWorkload& workload_;
  const PoolPolicy policy_;
  const double state_tokens_;
  const double state_budget_;
  const double row_budget_;
  double now_ = 0;
  double state_clock_ = 0;
  double row_clock_ = 0;
  std::vector<std::map<std::int64_t, StateRecord>> states_;  // by segment, then depth
  std::vector<RowRecord> rows_;                              // by segment
  std::size_t state_count_ = 0;
  double row_tokens_ = 0;
  std::set<Place> locked_;  // used or planted by the request being served
  Order<Place> state_order_;
  Order<int> row_order_;
};

}  // namespace

PoolPolicy reference_like_policy(std::int64_t grid_tokens) {
  return {.states = StateOrder::kOldestPath,
          .rows = RowOrder::kOldest,
          .places = StatePlaces::kChunkEnds,
          .state_share = 0.47,
          .grid_tokens = grid_tokens,
          .spacing_tokens = 4096};
}

Earnings replay_pools(const AgentWorkload& workload, const PoolPolicy& policy, double budget_tokens,
                      double state_tokens) {
  return PoolReplay(workload, policy, budget_tokens, state_tokens).run();
}

}  // namespace tandem
