// The engine's kernels, with the memory of sequences that start at their first token.
#include <algorithm>
#include <vector>

#include "model/router_args.h"
#include "train/operators.h"
#include "train/ops/linear.h"

namespace tandem::train {
namespace {

using Operators = ForwardOperators<float>;

// States and convolution windows of packed sequences, zero before the first token. A kernel that
// does not use one of the two is given none.
std::vector<KdaSequence> kda_sequences(std::span<const PackedSequence> sequences,
                                       std::int64_t state_floats, std::int64_t window_floats,
                                       Workspace<float>& workspace) {
  std::vector<KdaSequence> made;
  for (const PackedSequence& sequence : sequences) {
    made.push_back(
        {.first_row = sequence.first_row,
         .rows = sequence.rows,
         .state = workspace.zeros(1, state_floats).data,
         .window = reinterpret_cast<std::byte*>(workspace.zeros(1, window_floats).data)});
  }
  return made;
}

WeightMatrix dense(ConstRows<float> w) {
  return {.dtype = DType::kF32, .data = w.data, .outputs = w.rows, .inputs = w.columns};
}

DType cache_dtype(Precision precision) {
  return precision == Precision::kExact ? DType::kF32 : DType::kBF16;
}

}  // namespace

template <>
void Operators::embed(const WeightMatrix& table, std::span<const TokenId> ids,
                      Rows<float> y) const {
  kernels_.embed({.ids = ids.data(), .table = table, .y = y}, team_);
}

template <>
void Operators::linear(ConstRows<float> x, ConstRows<float> w, Rows<float> y) const {
  kernels_.linear({.x = x, .w = dense(w), .y = y}, team_);
}

template <>
void Operators::linear(ConstRows<float> x, const WeightMatrix& w, Rows<float> y) const {
  if (w.dtype == DType::kMxfp4 && w.layout == WeightLayout::kTiles) {
    // Only the experts' operator reads these; on the way back each product is needed by itself.
    Workspace<float>::Frame frame(workspace_);
    const Rows<float> values = workspace_.take(w.outputs, w.inputs);
    decode_weight<float>(w, values, team_);
    return linear(x, ConstRows<float>(values), y);
  }
  kernels_.linear({.x = x, .w = w, .y = y}, team_);
}

template <>
void Operators::rms_norm(ConstRows<float> x, const float* weight, float eps, Rows<float> y) const {
  kernels_.rms_norm({.x = x, .weight = weight, .eps = eps, .y = y}, team_);
}

template <>
void Operators::gated_rms_norm(ConstRows<float> x, ConstRows<float> gate, const float* weight,
                               std::int64_t heads, float eps, Rows<float> y) const {
  kernels_.gated_rms_norm(
      {.x = x, .gate = gate, .weight = weight, .heads = heads, .eps = eps, .y = y}, team_);
}

template <>
void Operators::sigmoid_gate(ConstRows<float> x, ConstRows<float> gate, Rows<float> y) const {
  kernels_.sigmoid_gate({.x = x, .gate = gate, .y = y}, team_);
}

template <>
void Operators::add(ConstRows<float> a, ConstRows<float> b, Rows<float> y) const {
  kernels_.add({.a = a, .b = b, .y = y}, team_);
}

template <>
void Operators::gated_activation(const ActivationSpec& spec, ConstRows<float> gate,
                                 ConstRows<float> up, Rows<float> y) const {
  kernels_.gated_activation({.gate = gate, .up = up, .activation = spec, .y = y}, team_);
}

template <>
void Operators::residual_mix(std::span<const ConstRows<float>> rows, const float* query, float eps,
                             Rows<float> y) const {
  kernels_.residual_mix({.bank = rows.data(),
                         .bank_rows = static_cast<std::int64_t>(rows.size()) - 1,
                         .stream = rows.back(),
                         .query = query,
                         .eps = eps,
                         .y = y},
                        team_);
}

template <>
void Operators::short_conv(const KdaSpec& spec, ConstRows<float> x, const float* weight,
                           std::span<const PackedSequence> sequences, Rows<float> y) const {
  Workspace<float>::Frame frame(workspace_);
  const auto memory = kda_sequences(sequences, 0, (spec.conv_width - 1) * x.columns, workspace_);
  kernels_.short_conv({.x = x,
                       .weight = weight,
                       .width = spec.conv_width,
                       .window_dtype = cache_dtype(precision_),
                       .sequences = memory.data(),
                       .sequence_count = static_cast<std::int64_t>(memory.size()),
                       .y = y},
                      team_);
}

template <>
void Operators::kda_gates(const KdaSpec& spec, const KdaWeights& weights, Rows<float> decay,
                          Rows<float> beta) const {
  kernels_.kda_gates({.decay = decay,
                      .beta = beta,
                      .dt_bias = weights.dt_bias.data(),
                      .head_rate = weights.head_rate.data(),
                      .lower_bound = spec.decay_lower_bound,
                      .heads = spec.heads},
                     team_);
}

template <>
void Operators::delta_rule(const KdaSpec& spec, ConstRows<float> qkv, ConstRows<float> decay,
                           ConstRows<float> beta, std::span<const PackedSequence> sequences,
                           Rows<float> o) const {
  Workspace<float>::Frame frame(workspace_);
  const auto memory =
      kda_sequences(sequences, spec.heads * spec.head_dim * spec.head_dim, 0, workspace_);
  const KdaArgs args{.qkv = qkv,
                     .decay = decay,
                     .beta = beta,
                     .heads = spec.heads,
                     .head_dim = spec.head_dim,
                     .sequences = memory.data(),
                     .sequence_count = static_cast<std::int64_t>(memory.size()),
                     .o = o};
  const bool exact = precision_ == Precision::kExact;
  (exact ? kernels_.kda_recurrent : kernels_.kda_chunked)(args, team_);
}

template <>
void Operators::latent_attention(const LatentAttentionArgs<float>& args,
                                 std::span<const PackedSequence> sequences) const {
  Workspace<float>::Frame frame(workspace_);
  // A sequence's rows lie in one page of its own length.
  const std::int64_t width = args.dims.latent + args.dims.pe;
  std::vector<std::byte*> pages(sequences.size());
  std::vector<MlaSequence> memory;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const PackedSequence& sequence = sequences[i];
    pages[i] = reinterpret_cast<std::byte*>(workspace_.take(sequence.rows * width));
    memory.push_back({.first_row = sequence.first_row,
                      .rows = sequence.rows,
                      .latent = {.pages = &pages[i], .page_tokens = sequence.rows}});
  }
  const auto count = static_cast<std::int64_t>(memory.size());
  const DType row_dtype = cache_dtype(precision_);
  kernels_.mla_store({.compressed = args.compressed,
                      .norm_weight = args.norm_weight,
                      .eps = args.eps,
                      .dims = args.dims,
                      .row_dtype = row_dtype,
                      .sequences = memory.data(),
                      .sequence_count = count},
                     team_);
  kernels_.mla_attention(
      {.q = args.q,
       .kv_b = args.merged_kv_b ? dense(*args.merged_kv_b) : args.kv_b,
       .dims = args.dims,
       .row_dtype = row_dtype,
       .sequences = memory.data(),
       .sequence_count = count,
       .workspace = workspace_.take(mla_workspace_floats(args.q.rows, args.dims)),
       .o = args.o},
      team_);
}

template <>
void Operators::router(const MoeSpec& spec, const float* bias, ConstRows<float> logits,
                       std::int32_t* ids, Rows<float> weights) const {
  RouterArgs args = router_args(spec, bias);
  args.logits = logits;
  args.ids = ids;
  args.weights = weights.data;
  kernels_.router(args, team_);
}

template <>
void Operators::experts(const MoeSpec& spec, const ActivationSpec& activation,
                        std::span<const ExpertWeights> experts, ConstRows<float> x,
                        const std::int32_t* ids, ConstRows<float> weights, Rows<float> y) const {
  Workspace<float>::Frame frame(workspace_);
  kernels_.experts({.x = x,
                    .experts = experts.data(),
                    .expert_count = static_cast<std::int64_t>(experts.size()),
                    .intermediate = spec.intermediate,
                    .ids = ids,
                    .weights = weights.data,
                    .top_k = spec.top_k,
                    .activation = activation,
                    .workspace = workspace_.take(
                        experts_workspace_floats(x.rows, spec.top_k, x.columns, spec.intermediate)),
                    .y = y},
                   team_);
}

}  // namespace tandem::train
