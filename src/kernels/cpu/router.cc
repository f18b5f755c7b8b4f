#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/cpu/operators.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

namespace tandem::cpu {
namespace {

// The `ids.size()` largest values, lowest index first on a tie, as a list that starts with the
// largest. A NaN ranks below every number: ids are distinct and in range whatever the values are.
void select_largest(std::span<const float> values, std::span<std::int32_t> ids) {
  const auto rank = [&](std::int32_t i) {
    const float value = values[static_cast<std::size_t>(i)];
    return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
  };
  std::size_t count = 0;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(values.size()); ++i) {
    if (count == ids.size() && !(rank(i) > rank(ids[count - 1]))) continue;
    std::size_t place = count == ids.size() ? count - 1 : count++;
    for (; place > 0 && rank(i) > rank(ids[place - 1]); --place) ids[place] = ids[place - 1];
    ids[place] = i;
  }
}

// Keeps the choice values of the best groups and moves the others' to -infinity; a group counts as
// much as its two best members together.
void limit_groups(const RouterArgs& args, std::span<float> choice, Scratch& scratch) {
  const std::size_t size = choice.size() / static_cast<std::size_t>(args.groups);
  const auto groups = static_cast<std::size_t>(args.groups);
  std::int32_t* ids = scratch.ints(args.groups);
  float* sums = scratch.floats(args.groups);
  for (std::size_t g = 0; g < groups; ++g) {
    std::int32_t best[2] = {};
    const std::size_t members = std::min<std::size_t>(2, size);
    select_largest(choice.subspan(g * size, size), {best, members});
    sums[g] = 0;
    for (std::size_t k = 0; k < members; ++k) {
      sums[g] += choice[g * size + static_cast<std::size_t>(best[k])];
    }
  }
  const auto top_groups = static_cast<std::size_t>(args.top_groups);
  select_largest({sums, groups}, {ids, top_groups});
  std::sort(ids, ids + top_groups);
  for (std::size_t g = 0, kept = 0; g < groups; ++g) {
    if (kept < top_groups && static_cast<std::size_t>(ids[kept]) == g) {
      ++kept;
    } else {
      std::fill_n(choice.begin() + static_cast<std::ptrdiff_t>(g * size), size,
                  -std::numeric_limits<float>::infinity());
    }
  }
}

void route_token(const RouterArgs& args, std::int64_t t) {
  static thread_local Scratch scratch;
  static thread_local Scratch group_scratch;
  const std::int64_t experts = args.logits.columns;
  float* score = scratch.floats(2 * experts);
  float* choice = score + experts;
  router_scores(args.logits.row(t), args.bias, experts, score, choice);

  std::int32_t* ids = args.ids + t * args.top_k;
  float* weights = args.weights + t * args.top_k;
  const bool limited = args.groups > 1 && args.top_groups < args.groups;
  if (limited) limit_groups(args, {choice, static_cast<std::size_t>(experts)}, group_scratch);
  select_largest({choice, static_cast<std::size_t>(experts)},
                 {ids, static_cast<std::size_t>(args.top_k)});
  std::sort(ids, ids + args.top_k);

  float sum = 0;
  for (std::int64_t i = 0; i < args.top_k; ++i) {
    weights[i] = args.bias_in_weights ? choice[ids[i]] : score[ids[i]];
    sum += weights[i];
  }
  for (std::int64_t i = 0; i < args.top_k; ++i) {
    weights[i] = (args.renormalize ? weights[i] / (sum + 1e-20f) : weights[i]) * args.scaling;
  }
}

}  // namespace

void router(const RouterArgs& args, ThreadTeam& team) noexcept {
  const double ns = 3 * kNsPerTranscendental * static_cast<double>(args.logits.columns);
  parallel(team, args.logits.rows, grain_for(ns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) route_token(args, t);
  });
}

}  // namespace tandem::cpu
