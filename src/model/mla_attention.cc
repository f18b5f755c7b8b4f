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

Activations project_query(Step& step, const MlaSpec& spec, const MlaWeights& weights,
                          ConstActivations x) {
  if (!spec.q_rank) return step.project(x, weights.q);
  Activations compressed = step.project(x, weights.q_down);
  step.rms_norm(compressed, weights.q_norm, step.spec.latent_norm_eps, compressed);
  return step.project(compressed, weights.q_up);
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
  Activations q = project_query(step, spec, weights, x);
  const ConstActivations compressed = step.project(x, weights.kv_down);

  step.enter(Stage::kMlaAttention);
  kernels.mla_store({.compressed = compressed,
                     .norm_weight = weights.kv_norm.data(),
                     .eps = step.spec.latent_norm_eps,
                     .dims = spec.dims,
                     .row_dtype = step.memory.cache_dtype,
                     .sequences = sequences.data(),
                     .sequence_count = sequence_count},
                    step.team);

  Activations o = step.scratch.take(x.rows, spec.dims.heads * spec.dims.value);
  kernels.mla_attention({.q = q,
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
    kernels.sigmoid_gate({.x = o, .gate = step.project(x, weights.gate), .y = o}, step.team);
  }
  kernels.linear({.x = o, .w = weights.out, .y = y}, step.team);
}

}  // namespace tandem
