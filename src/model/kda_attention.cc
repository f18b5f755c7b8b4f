// A Kimi Delta Attention layer: project, convolve, gate, run the delta rule, norm, gate, project
// back.
#include "model/step.h"

namespace tandem {
namespace {

std::vector<KdaSequence> layer_sequences(const Step& step, const LayerMemory& memory) {
  std::vector<KdaSequence> sequences;
  std::int64_t first_row = 0;
  for (const SequenceInput& input : step.batch.sequences) {
    const auto rows = static_cast<std::int64_t>(input.tokens.size());
    sequences.push_back({.first_row = first_row,
                         .rows = rows,
                         .state = reinterpret_cast<float*>(input.state + memory.state_offset_bytes),
                         .window = input.state + memory.window_offset_bytes});
    first_row += rows;
  }
  return sequences;
}

// q, k and v side by side, so that one convolution and one recurrence read them together.
Activations project_qkv(Step& step, const KdaSpec& spec, const KdaWeights& weights,
                        ConstActivations x) {
  const std::int64_t inner = spec.inner();
  Activations qkv = step.scratch.take(x.rows, 3 * inner);
  std::int64_t column = 0;
  for (const WeightMatrix* w : {&weights.q, &weights.k, &weights.v}) {
    step.kernels.linear({.x = x, .w = *w, .y = qkv.slice(column, inner)}, step.team);
    column += inner;
  }
  return qkv;
}

Activations output_gate_logits(Step& step, const KdaSpec& spec, const KdaWeights& weights,
                               ConstActivations x) {
  if (spec.full_rank_gate) return step.project(x, weights.gate);
  return step.project(step.project(x, weights.gate_down), weights.gate_up);
}

}  // namespace

void kda_attention(Step& step, std::int64_t layer, const KdaSpec& spec, const KdaWeights& weights,
                   ConstActivations x, Activations y) {
  Scratch::Frame frame(step.scratch);
  const KernelSet& kernels = step.kernels;
  const LayerMemory& memory = step.memory.layers[static_cast<std::size_t>(layer)];
  const std::vector<KdaSequence> sequences = layer_sequences(step, memory);
  const auto sequence_count = static_cast<std::int64_t>(sequences.size());

  step.enter(Stage::kKdaProjections);
  Activations raw = project_qkv(step, spec, weights, x);
  Activations qkv = step.scratch.take(x.rows, 3 * spec.inner());
  step.enter(Stage::kKdaConvGates);
  kernels.short_conv({.x = raw,
                      .weight = weights.conv.data(),
                      .width = spec.conv_width,
                      .window_dtype = step.memory.cache_dtype,
                      .sequences = sequences.data(),
                      .sequence_count = sequence_count,
                      .y = qkv},
                     step.team);

  step.enter(Stage::kKdaProjections);
  // The decay's logits are low rank in both families; only the output gate may be full rank.
  Activations decay = step.project(step.project(x, weights.decay_down), weights.decay_up);
  Activations beta = step.project(x, weights.beta);
  step.enter(Stage::kKdaConvGates);
  kernels.kda_gates({.decay = decay,
                     .beta = beta,
                     .dt_bias = weights.dt_bias.data(),
                     .head_rate = weights.head_rate.data(),
                     .lower_bound = spec.decay_lower_bound,
                     .heads = spec.heads},
                    step.team);

  Activations o = step.scratch.take(x.rows, spec.inner());
  const KdaArgs recurrence{.qkv = qkv,
                           .decay = decay,
                           .beta = beta,
                           .heads = spec.heads,
                           .head_dim = spec.head_dim,
                           .sequences = sequences.data(),
                           .sequence_count = sequence_count,
                           .o = o};
  step.enter(Stage::kKdaRecurrence);
  const bool exact = step.precision == Precision::kExact;
  (exact ? kernels.kda_recurrent : kernels.kda_chunked)(recurrence, step.team);

  step.enter(Stage::kKdaProjections);
  const ConstActivations gate = output_gate_logits(step, spec, weights, x);
  step.enter(Stage::kKdaConvGates);
  kernels.gated_rms_norm({.x = o,
                          .gate = gate,
                          .weight = weights.out_norm.data(),
                          .heads = spec.heads,
                          .eps = step.spec.norm_eps,
                          .y = o},
                         step.team);
  step.enter(Stage::kKdaProjections);
  kernels.linear({.x = o, .w = weights.out, .y = y}, step.team);
}

}  // namespace tandem
