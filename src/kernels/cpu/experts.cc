// Routed experts, with products as in linear.
#include <algorithm>

#include "kernels/cpu/expert_groups.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products.h"
#include "kernels/cpu/rows.h"

namespace tandem::cpu {
namespace {

constexpr std::int64_t kTaskOutputs = 48;

// Rows of all pairs in grouped order.
struct PairRows {
  Activations x;     // [pairs, L]
  Activations gate;  // [pairs, I]
  Activations up;    // [pairs, I]
  Activations out;   // [pairs, L]
};

PairRows pair_rows(const ExpertsArgs& args) {
  const std::int64_t pairs = args.x.rows * args.top_k;
  const std::int64_t width = args.x.columns;
  float* memory = args.workspace;
  const auto take = [&](std::int64_t columns) {
    const Activations rows = {memory, pairs, columns, columns};
    memory += pairs * columns;
    return rows;
  };
  return {take(width), take(args.intermediate), take(args.intermediate), take(width)};
}

Activations group_of(const Grouping& grouping, std::int64_t group, Activations rows) {
  const std::int32_t first = grouping.first[group];
  return {rows.row(first), grouping.rows(group), rows.columns, rows.stride};
}

// body(group, first output, last output) over blocks of outputs of every group. A group's cost is
// taken as the mean one's; ranges are handed out as threads come free.
template <class Body>
void for_output_blocks(ThreadTeam& team, const Grouping& grouping, std::int64_t outputs,
                       double row_ns, const Body& body) {
  const OutputBlocks blocks(outputs, kTaskOutputs, row_ns);
  const std::int64_t grain = grain_for(row_ns * static_cast<double>(blocks.size));
  parallel(team, grouping.groups * blocks.count(), grain,
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t task = begin; task < end; ++task) {
               const std::int64_t block = task % blocks.count();
               body(task / blocks.count(), blocks.first(block), blocks.last(block));
             }
           });
}

void gather(const ExpertsArgs& args, const Grouping& grouping, Activations x) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    std::copy_n(args.x.row(i / args.top_k), x.columns, x.row(grouping.place[i]));
  }
}

bool are_tiled(const ExpertWeights& expert) {
  return expert.gate.dtype == DType::kMxfp4 && expert.gate.layout == WeightLayout::kTiles;
}

}  // namespace

Grouping group_pairs(const ExpertsArgs& args, Scratch& scratch) {
  const std::int64_t pairs = args.x.rows * args.top_k;
  std::int32_t* next = scratch.ints(3 * args.expert_count + 1 + pairs);
  Grouping grouping;
  grouping.expert = next + args.expert_count;
  grouping.first = grouping.expert + args.expert_count;
  grouping.place = grouping.first + args.expert_count + 1;

  std::fill_n(next, args.expert_count, 0);
  for (std::int64_t i = 0; i < pairs; ++i) ++next[args.ids[i]];
  std::int32_t total = 0;
  for (std::int64_t e = 0; e < args.expert_count; ++e) {
    const std::int32_t count = next[e];
    next[e] = total;
    if (count == 0) continue;
    grouping.expert[grouping.groups] = static_cast<std::int32_t>(e);
    grouping.first[grouping.groups++] = total;
    total += count;
  }
  grouping.first[grouping.groups] = total;
  for (std::int64_t i = 0; i < pairs; ++i) grouping.place[i] = next[args.ids[i]]++;
  return grouping;
}

void experts(const ExpertsArgs& args, ThreadTeam& team) noexcept {
  if (args.x.rows == 0) return;
  if (are_tiled(args.experts[args.ids[0]])) return tiled_experts(args, team);
  static thread_local Scratch scratch;
  const Grouping grouping = group_pairs(args, scratch);
  const PairRows rows = pair_rows(args);
  gather(args, grouping, rows.x);
  const std::int64_t mean_rows = (rows.x.rows + grouping.groups - 1) / grouping.groups;
  const ExpertWeights& any = args.experts[grouping.expert[0]];

  const double hidden_ns =
      multiply_row_ns(any.gate, mean_rows) + multiply_row_ns(any.up, mean_rows);
  for_output_blocks(team, grouping, args.intermediate, hidden_ns,
                    [&](std::int64_t group, std::int64_t first, std::int64_t last) {
                      const ExpertWeights& expert = args.experts[grouping.expert[group]];
                      const Activations x = group_of(grouping, group, rows.x);
                      const Activations gate = group_of(grouping, group, rows.gate);
                      const Activations up = group_of(grouping, group, rows.up);
                      multiply_rows(expert.gate, x, first, last, gate);
                      multiply_rows(expert.up, x, first, last, up);
                      activate_rows(args.activation, gate.slice(first, last - first),
                                    up.slice(first, last - first));
                    });
  for_output_blocks(team, grouping, args.x.columns, multiply_row_ns(any.down, mean_rows),
                    [&](std::int64_t group, std::int64_t first, std::int64_t last) {
                      multiply_rows(args.experts[grouping.expert[group]].down,
                                    group_of(grouping, group, rows.gate), first, last,
                                    group_of(grouping, group, rows.out));
                    });

  const double token_ns = kNsPerElement * static_cast<double>(args.top_k * args.x.columns);
  parallel(team, args.x.rows, grain_for(token_ns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      combine_rows(rows.out, grouping.place + t * args.top_k, args.weights + t * args.top_k,
                   args.top_k, args.y.row(t));
    }
  });
}

}  // namespace tandem::cpu
