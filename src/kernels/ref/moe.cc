#include <algorithm>
#include <vector>

#include "kernels/ref/operators.h"
#include "kernels/ref/plain.h"

namespace tandem::reference {
namespace {

// The `count` largest of `values` among those allowed, lowest index first on a tie, in ascending
// order. Selection by comparison, not by sorting: even NaN scores give distinct ids within range.
std::vector<std::int32_t> largest(const std::vector<double>& values, std::vector<bool> allowed,
                                  std::int64_t count) {
  std::vector<std::int32_t> chosen;
  while (static_cast<std::int64_t>(chosen.size()) < count) {
    std::int32_t best = -1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (allowed[i] && (best < 0 || values[i] > values[best])) best = static_cast<std::int32_t>(i);
    }
    allowed[best] = false;
    chosen.push_back(best);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<bool> all_of(std::int64_t size) {
  return std::vector<bool>(static_cast<std::size_t>(size), true);
}

// The experts of the best groups; a group counts as much as its two best members together.
std::vector<bool> allowed_experts(const RouterArgs& args, const std::vector<double>& choice) {
  const auto experts = static_cast<std::int64_t>(choice.size());
  if (args.groups <= 1) return all_of(experts);
  const std::int64_t group_size = experts / args.groups;
  std::vector<double> group_score;
  for (std::int64_t g = 0; g < args.groups; ++g) {
    const std::vector<double> members(choice.begin() + g * group_size,
                                      choice.begin() + (g + 1) * group_size);
    double sum = 0;
    const std::int64_t best = std::min<std::int64_t>(2, group_size);
    for (std::int32_t i : largest(members, all_of(group_size), best)) sum += members[i];
    group_score.push_back(sum);
  }
  std::vector<bool> allowed(choice.size(), false);
  for (std::int32_t g : largest(group_score, all_of(args.groups), args.top_groups)) {
    for (std::int64_t i = 0; i < group_size; ++i) allowed[g * group_size + i] = true;
  }
  return allowed;
}

}  // namespace

void router(const RouterArgs& args, ThreadTeam&) noexcept {
  for (std::int64_t t = 0; t < args.logits.rows; ++t) {
    std::vector<double> score, choice;
    for (std::int64_t e = 0; e < args.logits.columns; ++e) {
      score.push_back(sigmoid(args.logits.row(t)[e]));
      choice.push_back(score.back() + args.bias[e]);
    }
    const auto chosen = largest(choice, allowed_experts(args, choice), args.top_k);
    const std::vector<double>& weight = args.bias_in_weights ? choice : score;
    double sum = 0;
    for (std::int32_t e : chosen) sum += weight[e];
    const double scale = args.scaling / (args.renormalize ? sum + 1e-20 : 1.0);
    for (std::int64_t i = 0; i < args.top_k; ++i) {
      args.ids[t * args.top_k + i] = chosen[i];
      args.weights[t * args.top_k + i] = static_cast<float>(weight[chosen[i]] * scale);
    }
  }
}

void experts(const ExpertsArgs& args, ThreadTeam&) noexcept {
  const std::int64_t width = args.x.columns;
  std::vector<float> gate(static_cast<std::size_t>(args.intermediate));
  std::vector<float> up(gate.size());
  std::vector<float> down(static_cast<std::size_t>(width));
  for (std::int64_t t = 0; t < args.x.rows; ++t) {
    std::vector<double> y = zeros(width);
    for (std::int64_t choice = t * args.top_k; choice < (t + 1) * args.top_k; ++choice) {
      const ExpertWeights& expert = args.experts[args.ids[choice]];
      multiply(expert.gate, args.x.row(t), gate.data());
      multiply(expert.up, args.x.row(t), up.data());
      for (std::int64_t i = 0; i < args.intermediate; ++i) {
        gate[i] = static_cast<float>(activate(args.activation, gate[i], up[i]));
      }
      multiply(expert.down, gate.data(), down.data());
      for (std::int64_t l = 0; l < width; ++l) {
        y[l] += static_cast<double>(args.weights[choice]) * down[l];
      }
    }
    for (std::int64_t l = 0; l < width; ++l) args.y.row(t)[l] = static_cast<float>(y[l]);
  }
}

}  // namespace tandem::reference
