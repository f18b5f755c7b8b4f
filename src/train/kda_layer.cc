#include <algorithm>
#include <array>

#include "train/layers.h"
#include "train/ops/kda.h"
#include "train/ops/norm.h"

namespace tandem::train {
namespace {

template <typename T>
Rows<T> copy(Workspace<T>& workspace, ConstRows<T> x) {
  const Rows<T> y = workspace.take(x.rows, x.columns);
  for (std::int64_t t = 0; t < x.rows; ++t) std::copy_n(x.row(t), x.columns, y.row(t));
  return y;
}

std::array<const WeightMatrix*, 3> qkv_weights(const KdaWeights& weights) {
  return {&weights.q, &weights.k, &weights.v};
}

}  // namespace

template <typename T>
KdaTape<T> kda_forward(const LayerContext<T>& context, const KdaSpec& spec,
                       const KdaWeights& weights, ConstRows<T> x, Rows<T> y) {
  Workspace<T>& workspace = context.workspace;
  KdaTape<T> tape;
  const std::int64_t inner = spec.inner();
  tape.raw = workspace.take(x.rows, 3 * inner);
  std::int64_t column = 0;
  for (const WeightMatrix* w : qkv_weights(weights)) {
    context.project(x, *w, tape.raw.slice(column, inner));
    column += inner;
  }
  tape.qkv = workspace.take(x.rows, 3 * inner);
  context.operators.short_conv(spec, tape.raw, weights.conv.data(), context.sequences, tape.qkv);

  tape.decay_hidden = context.project(x, weights.decay_down);
  tape.decay_logits = context.project(tape.decay_hidden, weights.decay_up);
  tape.beta_logits = context.project(x, weights.beta);
  tape.decay = copy<T>(workspace, tape.decay_logits);
  tape.beta = copy<T>(workspace, tape.beta_logits);
  context.operators.kda_gates(spec, weights, tape.decay, tape.beta);

  tape.o = workspace.take(x.rows, inner);
  context.operators.delta_rule(spec, tape.qkv, tape.decay, tape.beta, context.sequences, tape.o);

  if (spec.full_rank_gate) {
    tape.gate = context.project(x, weights.gate);
  } else {
    tape.gate_hidden = context.project(x, weights.gate_down);
    tape.gate = context.project(tape.gate_hidden, weights.gate_up);
  }
  tape.gated = workspace.take(x.rows, inner);
  context.operators.gated_rms_norm(tape.o, tape.gate, weights.out_norm.data(), spec.heads,
                                   context.spec.norm_eps, tape.gated);
  context.project(tape.gated, weights.out, y);
  return tape;
}

template <typename T>
void kda_backward(const LayerContext<T>& context, const KdaSpec& spec, const KdaWeights& weights,
                  const KdaTape<T>& tape, ConstRows<T> x, ConstRows<T> dy, Rows<T> dx) {
  Workspace<T>& workspace = context.workspace;
  typename Workspace<T>::Frame frame(workspace);
  const std::int64_t inner = spec.inner();
  const TrainedWeights<T>& trained = context.trained;

  const Rows<T> dgated = workspace.zeros(x.rows, inner);
  context.project_backward(tape.gated, weights.out, dy, dgated);
  const Rows<T> d_o = workspace.zeros(x.rows, inner);
  const Rows<T> dgate = workspace.zeros(x.rows, inner);
  gated_rms_norm_backward<T>(tape.o, tape.gate, weights.out_norm.data(), spec.heads,
                             context.spec.norm_eps, dgated, d_o, dgate,
                             trained.gradient(weights.out_norm), context.team);
  if (spec.full_rank_gate) {
    context.project_backward(x, weights.gate, dgate, dx);
  } else {
    const Rows<T> dhidden = workspace.zeros(x.rows, spec.head_dim);
    context.project_backward(tape.gate_hidden, weights.gate_up, dgate, dhidden);
    context.project_backward(x, weights.gate_down, dhidden, dx);
  }

  const DeltaRuleRows<T> drule{workspace.zeros(x.rows, 3 * inner), workspace.zeros(x.rows, inner),
                               workspace.zeros(x.rows, spec.heads)};
  delta_rule_backward_chunked<T>({spec.heads, spec.head_dim}, {tape.qkv, tape.decay, tape.beta},
                                 context.sequences, d_o, drule, context.team);

  const Rows<T> ddecay_logits = workspace.zeros(x.rows, inner);
  const Rows<T> dbeta_logits = workspace.zeros(x.rows, spec.heads);
  kda_gates_backward<T>(
      {weights.dt_bias.data(), weights.head_rate.data(), spec.decay_lower_bound, spec.heads},
      tape.decay_logits, tape.beta_logits, drule.decay, drule.beta, ddecay_logits, dbeta_logits,
      {trained.gradient(weights.dt_bias), trained.gradient(weights.head_rate)});
  context.project_backward(x, weights.beta, dbeta_logits, dx);
  const Rows<T> dhidden = workspace.zeros(x.rows, spec.head_dim);
  context.project_backward(tape.decay_hidden, weights.decay_up, ddecay_logits, dhidden);
  context.project_backward(x, weights.decay_down, dhidden, dx);

  const Rows<T> draw = workspace.zeros(x.rows, 3 * inner);
  short_conv_backward<T>(tape.raw, weights.conv.data(), spec.conv_width, context.sequences,
                         drule.qkv, draw, trained.gradient(weights.conv), context.team);
  std::int64_t column = 0;
  for (const WeightMatrix* w : qkv_weights(weights)) {
    context.project_backward(x, *w, draw.slice(column, inner), dx);
    column += inner;
  }
}

#define INSTANTIATE(T)                                                                       \
  template KdaTape<T> kda_forward(const LayerContext<T>&, const KdaSpec&, const KdaWeights&, \
                                  ConstRows<T>, Rows<T>);                                    \
  template void kda_backward(const LayerContext<T>&, const KdaSpec&, const KdaWeights&,      \
                             const KdaTape<T>&, ConstRows<T>, ConstRows<T>, Rows<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
