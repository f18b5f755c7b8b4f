// The operators in fp64, by the plain code of src/train/ops.
#include <algorithm>
#include <vector>

#include "model/router_args.h"
#include "train/operators.h"
#include "train/ops/kda.h"
#include "train/ops/linear.h"
#include "train/ops/mla.h"
#include "train/ops/norm.h"
#include "train/ops/residual_mix.h"
#include "train/ops/router.h"
#include "train/products.h"

namespace tandem::train {
namespace {

using Operators = ForwardOperators<double>;

void clear(Rows<double> y) {
  for (std::int64_t t = 0; t < y.rows; ++t) std::fill_n(y.row(t), y.columns, 0.0);
}

}  // namespace

template <>
void Operators::embed(const WeightMatrix& table, std::span<const TokenId> ids,
                      Rows<double> y) const {
  train::embed<double>(table, ids, y);
}

template <>
void Operators::linear(ConstRows<double> x, ConstRows<double> w, Rows<double> y) const {
  clear(y);
  add_forward_product<double>(x, w, y, team_);
}

template <>
void Operators::linear(ConstRows<double> x, const WeightMatrix& w, Rows<double> y) const {
  Workspace<double>::Frame frame(workspace_);
  const Rows<double> values = workspace_.take(w.outputs, w.inputs);
  decode_weight<double>(w, values, team_);
  linear(x, ConstRows<double>(values), y);
}

template <>
void Operators::rms_norm(ConstRows<double> x, const float* weight, float eps,
                         Rows<double> y) const {
  train::rms_norm<double>(x, weight, eps, y);
}

template <>
void Operators::gated_rms_norm(ConstRows<double> x, ConstRows<double> gate, const float* weight,
                               std::int64_t heads, float eps, Rows<double> y) const {
  train::gated_rms_norm<double>(x, gate, weight, heads, eps, y);
}

template <>
void Operators::sigmoid_gate(ConstRows<double> x, ConstRows<double> gate, Rows<double> y) const {
  train::sigmoid_gate<double>(x, gate, y);
}

template <>
void Operators::add(ConstRows<double> a, ConstRows<double> b, Rows<double> y) const {
  for (std::int64_t t = 0; t < a.rows; ++t) {
    for (std::int64_t i = 0; i < a.columns; ++i) y.row(t)[i] = a.row(t)[i] + b.row(t)[i];
  }
}

template <>
void Operators::gated_activation(const ActivationSpec& spec, ConstRows<double> gate,
                                 ConstRows<double> up, Rows<double> y) const {
  train::gated_activation<double>(spec, gate, up, y);
}

template <>
void Operators::residual_mix(std::span<const ConstRows<double>> rows, const float* query, float eps,
                             Rows<double> y) const {
  train::residual_mix<double>(rows, query, eps, y);
}

template <>
void Operators::short_conv(const KdaSpec& spec, ConstRows<double> x, const float* weight,
                           std::span<const PackedSequence> sequences, Rows<double> y) const {
  train::short_conv<double>(x, weight, spec.conv_width, sequences, y);
}

template <>
void Operators::kda_gates(const KdaSpec& spec, const KdaWeights& weights, Rows<double> decay,
                          Rows<double> beta) const {
  const KdaGateWeights gates{weights.dt_bias.data(), weights.head_rate.data(),
                             spec.decay_lower_bound, spec.heads};
  train::kda_gates<double>(gates, decay, beta, decay, beta);
}

template <>
void Operators::delta_rule(const KdaSpec& spec, ConstRows<double> qkv, ConstRows<double> decay,
                           ConstRows<double> beta, std::span<const PackedSequence> sequences,
                           Rows<double> o) const {
  train::delta_rule<double>({spec.heads, spec.head_dim}, {qkv, decay, beta}, sequences, o, team_);
}

template <>
void Operators::latent_attention(const LatentAttentionArgs<double>& args,
                                 std::span<const PackedSequence> sequences) const {
  Workspace<double>::Frame frame(workspace_);
  const MlaDims& dims = args.dims;
  const Rows<double> latent = workspace_.take(args.q.rows, dims.latent);
  train::rms_norm<double>(args.compressed.slice(0, dims.latent), args.norm_weight, args.eps,
                          latent);
  const Rows<double> kv = workspace_.take(args.q.rows, args.kv_b.outputs);
  if (args.merged_kv_b) {
    linear(latent, *args.merged_kv_b, kv);
  } else {
    linear(latent, args.kv_b, kv);
  }
  attention<double>(dims, {args.q, kv, args.compressed.slice(dims.latent, dims.pe)}, sequences,
                    args.o, team_);
}

template <>
void Operators::router(const MoeSpec& spec, const float* bias, ConstRows<double> logits,
                       std::int32_t* ids, Rows<double> weights) const {
  // The choice is made by the reference kernel, in fp32; the weights then have fp64's digits.
  std::vector<float> narrow, unused(static_cast<std::size_t>(logits.rows * spec.top_k));
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    for (std::int64_t e = 0; e < logits.columns; ++e) {
      narrow.push_back(static_cast<float>(logits.row(t)[e]));
    }
  }
  RouterArgs args = router_args(spec, bias);
  args.logits = {narrow.data(), logits.rows, logits.columns, logits.columns};
  args.ids = ids;
  args.weights = unused.data();
  reference_kernels().router(args, team_);
  router_weights<double>(args, logits, ids, weights);
}

template <>
void Operators::experts(const MoeSpec& spec, const ActivationSpec& activation,
                        std::span<const ExpertWeights> experts, ConstRows<double> x,
                        const std::int32_t* ids, ConstRows<double> weights, Rows<double> y) const {
  Workspace<double>::Frame frame(workspace_);
  const Rows<double> gate = workspace_.take(1, spec.intermediate);
  const Rows<double> up = workspace_.take(1, spec.intermediate);
  const Rows<double> down = workspace_.take(1, x.columns);
  clear(y);
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const ConstRows<double> row{x.row(t), 1, x.columns, x.columns};
    for (std::int64_t i = 0; i < spec.top_k; ++i) {
      const ExpertWeights& expert = experts[static_cast<std::size_t>(ids[t * spec.top_k + i])];
      linear(row, expert.gate, gate);
      linear(row, expert.up, up);
      train::gated_activation<double>(activation, gate, up, gate);
      linear(gate, expert.down, down);
      for (std::int64_t l = 0; l < x.columns; ++l) y.row(t)[l] += weights.row(t)[i] * down.data[l];
    }
  }
}

}  // namespace tandem::train
