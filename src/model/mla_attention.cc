// A multi-head latent attention layer: compress, store one latent row a token, attend in absorbed
// form.
#include "model/step.h"

namespace tandem {
namespace {

std::vector<MlaSequence> layer_sequences(const Step& step, const LayerMemory& memory) {
  std::vector<MlaSequence> sequences;
  std::int64_t first_row = 0;
  for (const SequenceInput& input : step.batch.sequences) {
    const auto rows = static_cast<std::int64_t>(input.tokens.size());
    const PagedRows latent{.pages = input.pages.data(),
                           .page_tokens = step.batch.page_tokens,
                           .layer_offset_bytes = memory.row_prefix_bytes * step.batch.page_tokens};
    sequences.push_back(
        {.first_row = first_row, .rows = rows, .start = input.start, .latent = latent});
    first_row += rows;
  }
  return sequences;
}

// What a layer makes of its input.
struct Projected {
  Activations q;           // [T, heads * (nope + pe)]
  Activations compressed;  // [T, latent + pe]
  Activations gate;        // [T, heads * value] of the output, if the spec has one
};

Projected project(Step& step, const MlaSpec& spec, const MlaWeights& weights, ConstActivations x) {
  const MlaDims& dims = spec.dims;
  const auto take = [&](std::int64_t columns) { return step.scratch.take(x.rows, columns); };
  Projected all = {take(dims.heads * (dims.nope + dims.pe)), take(spec.row_elements()), {}};
  const Activations q = spec.q_rank ? take(*spec.q_rank) : all.q;
  const LinearArgs query{x, spec.q_rank ? weights.q_down : weights.q, q};
  const LinearArgs rows{x, weights.kv_down, all.compressed};
  if (spec.output_gate) {
    all.gate = take(dims.heads * dims.value);
    step.project_all({query, rows, {x, weights.gate, all.gate}});
  } else {
    step.project_all({query, rows});
  }
  if (spec.q_rank) {
    step.rms_norm(q, weights.q_norm, step.spec.latent_norm_eps, q);
    step.project_all({{q, weights.q_up, all.q}});
  }
  return all;
}

}  // namespace

void mla_attention(Step& step, std::int64_t layer, const MlaSpec& spec, const MlaWeights& weights,
                   ConstActivations x, Activations y) {
  Scratch::Frame frame(step.scratch);
  const KernelSet& kernels = step.kernels;
  const LayerMemory& memory = step.memory.layers[static_cast<std::size_t>(layer)];
  const std::vector<MlaSequence> sequences = layer_sequences(step, memory);
  const auto sequence_count = static_cast<std::int64_t>(sequences.size());

  step.enter(Stage::kMlaProjections);
  const Projected projected = project(step, spec, weights, x);

  step.enter(Stage::kMlaAttention);
  kernels.mla_store({.compressed = projected.compressed,
                     .norm_weight = weights.kv_norm.data(),
                     .eps = step.spec.latent_norm_eps,
                     .dims = spec.dims,
                     .row_dtype = step.memory.cache_dtype,
                     .sequences = sequences.data(),
                     .sequence_count = sequence_count},
                    step.team);

  Activations o = step.scratch.take(x.rows, spec.dims.heads * spec.dims.value);
  kernels.mla_attention({.q = projected.q,
                         .kv_b = weights.kv_up,
                         .dims = spec.dims,
                         .row_dtype = step.memory.cache_dtype,
                         .sequences = sequences.data(),
                         .sequence_count = sequence_count,
                         .workspace = step.scratch.take(mla_workspace_floats(x.rows, spec.dims)),
                         .o = o},
                        step.team);

  step.enter(Stage::kMlaProjections);
  if (spec.output_gate) {
    kernels.sigmoid_gate({.x = o, .gate = projected.gate, .y = o}, step.team);
  }
  kernels.linear({.x = o, .w = weights.out, .y = y}, step.team);
}

}  // namespace tandem
