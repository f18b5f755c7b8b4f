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

// What a layer makes of its input.
struct Projected {
  Activations qkv;    // [T, 3 * inner] side by side, so that one convolution reads them together
  Activations decay;  // [T, inner]
  Activations beta;   // [T, heads]
  Activations gate;   // [T, inner] of the output
};

// The decay's logits are low rank in both families; the output gate's may be.
Projected project(Step& step, const KdaSpec& spec, const KdaWeights& weights, ConstActivations x) {
  const std::int64_t inner = spec.inner();
  Scratch& scratch = step.scratch;
  const Projected all = {scratch.take(x.rows, 3 * inner), scratch.take(x.rows, inner),
                         scratch.take(x.rows, spec.heads), scratch.take(x.rows, inner)};
  const Activations decay = scratch.take(x.rows, weights.decay_down.outputs);
  const LinearArgs q{x, weights.q, all.qkv.slice(0, inner)};
  const LinearArgs k{x, weights.k, all.qkv.slice(inner, inner)};
  const LinearArgs v{x, weights.v, all.qkv.slice(2 * inner, inner)};
  const LinearArgs decay_down{x, weights.decay_down, decay};
  const LinearArgs decay_up{decay, weights.decay_up, all.decay};
  const LinearArgs beta{x, weights.beta, all.beta};
  if (spec.full_rank_gate) {
    step.project_all({q, k, v, decay_down, beta, {x, weights.gate, all.gate}});
    step.project_all({decay_up});
  } else {
    const Activations gate = scratch.take(x.rows, weights.gate_down.outputs);
    step.project_all({q, k, v, decay_down, beta, {x, weights.gate_down, gate}});
    step.project_all({decay_up, {gate, weights.gate_up, all.gate}});
  }
  return all;
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
  const Projected projected = project(step, spec, weights, x);
  const Activations qkv = step.scratch.take(x.rows, 3 * spec.inner());
  step.enter(Stage::kKdaConvGates);
  kernels.short_conv({.x = projected.qkv,
                      .weight = weights.conv.data(),
                      .width = spec.conv_width,
                      .window_dtype = step.memory.cache_dtype,
                      .sequences = sequences.data(),
                      .sequence_count = sequence_count,
                      .y = qkv},
                     step.team);

  kernels.kda_gates({.decay = projected.decay,
                     .beta = projected.beta,
                     .dt_bias = weights.dt_bias.data(),
                     .head_rate = weights.head_rate.data(),
                     .lower_bound = spec.decay_lower_bound,
                     .heads = spec.heads},
                    step.team);

  Activations o = step.scratch.take(x.rows, spec.inner());
  const KdaArgs recurrence{.qkv = qkv,
                           .decay = projected.decay,
                           .beta = projected.beta,
                           .heads = spec.heads,
                           .head_dim = spec.head_dim,
                           .sequences = sequences.data(),
                           .sequence_count = sequence_count,
                           .o = o};
  step.enter(Stage::kKdaRecurrence);
  const bool exact = step.precision == Precision::kExact;
  (exact ? kernels.kda_recurrent : kernels.kda_chunked)(recurrence, step.team);

  step.enter(Stage::kKdaConvGates);
  kernels.gated_rms_norm({.x = o,
                          .gate = projected.gate,
                          .weight = weights.out_norm.data(),
                          .heads = spec.heads,
                          .eps = step.spec.norm_eps,
                          .y = o},
                         step.team);
  step.enter(Stage::kKdaProjections);
  kernels.linear({.x = o, .w = weights.out, .y = y}, step.team);
}

}  // namespace tandem
