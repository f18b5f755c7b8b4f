// Routed experts of kMxfp4 in tiles, with activations in two 8-bit digits (quantized.h).
#include <algorithm>

#include "kernels/cpu/expert_groups.h"
#include "kernels/cpu/products.h"
#include "kernels/cpu/quantized.h"
#include "kernels/cpu/rows.h"

namespace tandem::cpu {
namespace {

// Hidden units of a task: whole groups of what the next product reads.
constexpr std::int64_t kHiddenUnits = kMxfp4GroupSize;
// Outputs of a task: whole tiles of weights.
constexpr std::int64_t kOutputs = 32;

struct Workspace {
  QuantizedRows x;       // [T, L]
  QuantizedRows hidden;  // [pairs, I], grouped
  Activations out;       // [pairs, L], grouped
};

Workspace workspace_of(const ExpertsArgs& args) {
  const std::int64_t pairs = args.x.rows * args.top_k, width = args.x.columns;
  float* memory = args.workspace;
  const auto quantized = [&](std::int64_t rows, std::int64_t columns) {
    const QuantizedRows result{reinterpret_cast<QuantizedGroup*>(memory), columns};
    memory += quantized_floats(rows, columns);
    return result;
  };
  Workspace workspace;
  workspace.x = quantized(args.x.rows, width);
  workspace.hidden = quantized(pairs, args.intermediate);
  workspace.out = {memory, pairs, width, width};
  return workspace;
}

void quantize_inputs(const ExpertsArgs& args, ThreadTeam& team, const QuantizedRows& x) {
  const double row_ns = kNsPerElement * static_cast<double>(args.x.columns);
  parallel(team, args.x.rows, grain_for(row_ns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) quantize_row(args.x.row(t), x.columns, x.row(t));
  });
}

// The token of every place.
std::int32_t* tokens_of(const ExpertsArgs& args, const Grouping& grouping, Scratch& scratch) {
  const std::int64_t pairs = args.x.rows * args.top_k;
  std::int32_t* token = scratch.ints(pairs);
  for (std::int64_t i = 0; i < pairs; ++i) {
    token[grouping.place[i]] = static_cast<std::int32_t>(i / args.top_k);
  }
  return token;
}

// Hidden units [first, last) of one group's pairs.
void hidden_units(const ExpertsArgs& args, const Grouping& grouping, std::int64_t group,
                  const std::int32_t* token, std::int64_t first, std::int64_t last,
                  const Workspace& workspace) {
  static thread_local Scratch scratch;
  const ExpertWeights& expert = args.experts[grouping.expert[group]];
  const std::int64_t rows = grouping.rows(group), columns = last - first;
  float* memory = scratch.floats(2 * rows * columns);
  const Activations gate = {memory, rows, columns, columns};
  const Activations up = {memory + rows * columns, rows, columns, columns};
  const std::int32_t* from = token + grouping.first[group];
  multiply_quantized(weight_rows(expert.gate, first, columns), workspace.x, from, 0, columns, gate);
  multiply_quantized(weight_rows(expert.up, first, columns), workspace.x, from, 0, columns, up);
  activate_rows(args.activation, gate, up);
  for (std::int64_t r = 0; r < rows; ++r) {
    quantize_row(gate.row(r), columns,
                 workspace.hidden.row(grouping.first[group] + r) + first / kMxfp4GroupSize);
  }
}

// Outputs [first, last) of all tokens.
void outputs(const ExpertsArgs& args, const Grouping& grouping, std::int64_t first,
             std::int64_t last, const Workspace& workspace) {
  for (std::int64_t group = 0; group < grouping.groups; ++group) {
    const std::int32_t place = grouping.first[group];
    const QuantizedRows hidden{workspace.hidden.row(place), workspace.hidden.columns};
    multiply_quantized(args.experts[grouping.expert[group]].down, hidden, nullptr, first, last,
                       rows_of(workspace.out, place, grouping.rows(group)));
  }
  const Activations out = workspace.out.slice(first, last - first);
  for (std::int64_t t = 0; t < args.x.rows; ++t) {
    combine_rows(out, grouping.place + t * args.top_k, args.weights + t * args.top_k, args.top_k,
                 args.y.row(t) + first);
  }
}

}  // namespace

void tiled_experts(const ExpertsArgs& args, ThreadTeam& team) noexcept {
  static thread_local Scratch group_scratch, token_scratch;
  const Grouping grouping = group_pairs(args, group_scratch);
  const std::int32_t* token = tokens_of(args, grouping, token_scratch);
  const Workspace workspace = workspace_of(args);
  quantize_inputs(args, team, workspace.x);

  const std::int64_t pairs = args.x.rows * args.top_k;
  const std::int64_t mean_rows = (pairs + grouping.groups - 1) / grouping.groups;
  const ExpertWeights& any = args.experts[grouping.expert[0]];
  const double hidden_ns = 2 * quantized_output_ns(any.gate, mean_rows);
  const OutputBlocks hidden(args.intermediate, kHiddenUnits, hidden_ns);
  parallel(team, grouping.groups * hidden.count(),
           grain_for(hidden_ns * static_cast<double>(hidden.size)),
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t task = begin; task < end; ++task) {
               const std::int64_t block = task % hidden.count();
               hidden_units(args, grouping, task / hidden.count(), token, hidden.first(block),
                            hidden.last(block), workspace);
             }
           });

  const double output_ns =
      static_cast<double>(grouping.groups) * quantized_output_ns(any.down, mean_rows) +
      static_cast<double>(pairs) * kNsPerElement;
  const OutputBlocks wide(args.x.columns, kOutputs, output_ns);
  parallel(team, wide.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      outputs(args, grouping, wide.first(block), wide.last(block), workspace);
    }
  });
}

}  // namespace tandem::cpu
