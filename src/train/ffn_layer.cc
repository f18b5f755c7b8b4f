// Dense feed-forward blocks and mixtures of experts.
#include <algorithm>
#include <cmath>

#include "model/router_args.h"
#include "train/layers.h"
#include "train/ops/norm.h"
#include "train/ops/router.h"

namespace tandem::train {

template <typename T>
FfnTape<T> ffn_forward(const LayerContext<T>& context, const FfnWeights& weights, ConstRows<T> x,
                       Rows<T> y) {
  FfnTape<T> tape;
  tape.gate = context.project(x, weights.gate);
  tape.up = context.project(x, weights.up);
  tape.act = context.workspace.take(x.rows, tape.gate.columns);
  context.operators.gated_activation(context.spec.activation, tape.gate, tape.up, tape.act);
  context.project(tape.act, weights.down, y);
  return tape;
}

template <typename T>
void ffn_backward(const LayerContext<T>& context, const FfnWeights& weights, const FfnTape<T>& tape,
                  ConstRows<T> x, ConstRows<T> dy, Rows<T> dx) {
  Workspace<T>& workspace = context.workspace;
  typename Workspace<T>::Frame frame(workspace);
  const Rows<T> dact = workspace.zeros(x.rows, tape.act.columns);
  context.project_backward(tape.act, weights.down, dy, dact);
  const Rows<T> dgate = workspace.zeros(x.rows, tape.act.columns);
  const Rows<T> dup = workspace.zeros(x.rows, tape.act.columns);
  gated_activation_backward<T>(context.spec.activation, tape.gate, tape.up, dact, dgate, dup,
                               context.team);
  context.project_backward(x, weights.gate, dgate, dx);
  context.project_backward(x, weights.up, dup, dx);
}

namespace {

// The (token, slot) pairs of each expert, pair = token * top_k + slot, ascending.
std::vector<std::vector<std::int64_t>> pairs_by_expert(const std::vector<std::int32_t>& ids,
                                                       std::size_t experts) {
  std::vector<std::vector<std::int64_t>> pairs(experts);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    pairs[static_cast<std::size_t>(ids[i])].push_back(static_cast<std::int64_t>(i));
  }
  return pairs;
}

// Row i of the result is row pairs[i] / top_k of x.
template <typename T>
Rows<T> gather(Workspace<T>& workspace, ConstRows<T> x, const std::vector<std::int64_t>& pairs,
               std::int64_t top_k) {
  const Rows<T> gathered = workspace.take(static_cast<std::int64_t>(pairs.size()), x.columns);
  for (std::int64_t i = 0; i < gathered.rows; ++i) {
    std::copy_n(x.row(pairs[static_cast<std::size_t>(i)] / top_k), x.columns, gathered.row(i));
  }
  return gathered;
}

template <typename T>
bool adapts_experts(const LayerContext<T>& context, const MoeWeights& weights) {
  return std::any_of(weights.experts.begin(), weights.experts.end(), [&](const ExpertWeights& e) {
    return context.trained.lora(e.gate) != nullptr || context.trained.lora(e.up) != nullptr ||
           context.trained.lora(e.down) != nullptr;
  });
}

// The experts' sum where some of them have an adapter: each expert's products by themselves, then
// the sum in the order of slots with one fused multiply-add a term, as the kernels take it.
template <typename T>
void adapted_experts(const LayerContext<T>& context, const MoeSpec& spec, const MoeWeights& weights,
                     const MoeTape<T>& tape) {
  Workspace<T>& workspace = context.workspace;
  typename Workspace<T>::Frame frame(workspace);
  const Rows<T> pair_rows =
      workspace.take(static_cast<std::int64_t>(tape.ids.size()), tape.input.columns);
  const auto pairs = pairs_by_expert(tape.ids, weights.experts.size());
  for (std::size_t e = 0; e < pairs.size(); ++e) {
    if (pairs[e].empty()) continue;
    typename Workspace<T>::Frame expert_frame(workspace);
    const ExpertWeights& expert = weights.experts[e];
    const Rows<T> x = gather<T>(workspace, tape.input, pairs[e], spec.top_k);
    const Rows<T> gate = context.project(x, expert.gate);
    const Rows<T> up = context.project(x, expert.up);
    context.operators.gated_activation(context.spec.activation, gate, up, gate);
    const Rows<T> down = context.project(gate, expert.down);
    for (std::int64_t i = 0; i < down.rows; ++i) {
      std::copy_n(down.row(i), down.columns, pair_rows.row(pairs[e][static_cast<std::size_t>(i)]));
    }
  }
  for (std::int64_t t = 0; t < tape.combined.rows; ++t) {
    T* y = tape.combined.row(t);
    std::fill_n(y, tape.combined.columns, T(0));
    for (std::int64_t slot = 0; slot < spec.top_k; ++slot) {
      const T weight = tape.weights.row(t)[slot];
      const T* row = pair_rows.row(t * spec.top_k + slot);
      for (std::int64_t i = 0; i < tape.combined.columns; ++i)
        y[i] = std::fma(weight, row[i], y[i]);
    }
  }
}

// One expert's way back for its pairs; dweights is [T, top_k].
template <typename T>
void expert_backward(const LayerContext<T>& context, const MoeSpec& spec,
                     const ExpertWeights& expert, const std::vector<std::int64_t>& pairs,
                     const MoeTape<T>& tape, ConstRows<T> dcombined, Rows<T> dinput,
                     Rows<T> dweights) {
  Workspace<T>& workspace = context.workspace;
  typename Workspace<T>::Frame frame(workspace);
  const Rows<T> x = gather<T>(workspace, tape.input, pairs, spec.top_k);
  const Rows<T> dy = gather<T>(workspace, dcombined, pairs, spec.top_k);
  const Rows<T> gate = context.project(x, expert.gate);
  const Rows<T> up = context.project(x, expert.up);
  const Rows<T> act = workspace.take(gate.rows, gate.columns);
  context.operators.gated_activation(context.spec.activation, gate, up, act);

  // The router's share enters after the expert: <dy, E(x)> is <E'^T dy, act> since `down` is
  // linear.
  const Rows<T> dact = workspace.zeros(act.rows, act.columns);
  context.input_gradient(expert.down, dy, dact);
  for (std::int64_t i = 0; i < act.rows; ++i) {
    const std::int64_t pair = pairs[static_cast<std::size_t>(i)];
    const T weight = tape.weights.data[pair];
    double dweight = 0;
    for (std::int64_t c = 0; c < act.columns; ++c) {
      dweight += static_cast<double>(dact.row(i)[c]) * static_cast<double>(act.row(i)[c]);
      dact.row(i)[c] *= weight;
    }
    dweights.data[pair] += static_cast<T>(dweight);
    for (std::int64_t c = 0; c < dy.columns; ++c) dy.row(i)[c] *= weight;
  }
  context.weight_gradients(act, expert.down, dy);
  const Rows<T> dgate = workspace.zeros(act.rows, act.columns);
  const Rows<T> dup = workspace.zeros(act.rows, act.columns);
  gated_activation_backward<T>(context.spec.activation, gate, up, dact, dgate, dup, context.team);
  const Rows<T> dx = workspace.zeros(x.rows, x.columns);
  context.project_backward(x, expert.gate, dgate, dx);
  context.project_backward(x, expert.up, dup, dx);
  for (std::int64_t i = 0; i < dx.rows; ++i) {
    T* to = dinput.row(pairs[static_cast<std::size_t>(i)] / spec.top_k);
    for (std::int64_t c = 0; c < dx.columns; ++c) to[c] += dx.row(i)[c];
  }
}

// Puts recorded experts in the place of the router's choice. Rows where they are the same keep
// every bit.
template <typename T>
void replay_routes(const MoeSpec& spec, const MoeWeights& weights, const std::int32_t* replayed,
                   MoeTape<T>& tape) {
  const RouterArgs shape = router_args(spec, weights.router_bias.data());
  for (std::int64_t t = 0; t < tape.logits.rows; ++t) {
    const std::int32_t* recorded = replayed + t * spec.top_k;
    std::int32_t* chosen = tape.ids.data() + t * spec.top_k;
    if (recorded[0] < 0 || std::equal(recorded, recorded + spec.top_k, chosen)) continue;
    std::copy_n(recorded, spec.top_k, chosen);
    router_weights<T>(shape, {tape.logits.row(t), 1, spec.experts, spec.experts}, chosen,
                      {tape.weights.row(t), 1, spec.top_k, spec.top_k});
  }
}

}  // namespace

template <typename T>
MoeTape<T> moe_forward(const LayerContext<T>& context, const MoeSpec& spec,
                       const MoeWeights& weights, const std::int32_t* replayed, ConstRows<T> x,
                       Rows<T> y) {
  Workspace<T>& workspace = context.workspace;
  MoeTape<T> tape;
  tape.logits = context.project(x, weights.router);
  tape.ids.resize(static_cast<std::size_t>(x.rows * spec.top_k));
  tape.weights = workspace.take(x.rows, spec.top_k);
  context.operators.router(spec, weights.router_bias.data(), tape.logits, tape.ids.data(),
                           tape.weights);
  if (replayed != nullptr) replay_routes(spec, weights, replayed, tape);
  if (spec.latent) {
    tape.input = context.project(x, weights.latent_down);
  } else {
    tape.input = workspace.take(x.rows, x.columns);
    for (std::int64_t t = 0; t < x.rows; ++t) std::copy_n(x.row(t), x.columns, tape.input.row(t));
  }
  tape.combined = workspace.take(x.rows, tape.input.columns);
  if (adapts_experts(context, weights)) {
    adapted_experts(context, spec, weights, tape);
  } else {
    context.operators.experts(spec, context.spec.activation, weights.experts, tape.input,
                              tape.ids.data(), tape.weights, tape.combined);
  }
  tape.normed = tape.combined;
  if (spec.latent_norm) {
    tape.normed = workspace.take(x.rows, tape.combined.columns);
    context.operators.rms_norm(tape.combined, weights.latent_norm.data(), context.spec.norm_eps,
                               tape.normed);
  }
  const Rows<T> routed =
      spec.latent ? context.project(tape.normed, weights.latent_up) : tape.normed;
  tape.shared = ffn_forward(context, weights.shared, x, y);
  context.operators.add(routed, y, y);
  return tape;
}

template <typename T>
void moe_backward(const LayerContext<T>& context, const MoeSpec& spec, const MoeWeights& weights,
                  const MoeTape<T>& tape, ConstRows<T> x, ConstRows<T> dy, Rows<T> dx) {
  Workspace<T>& workspace = context.workspace;
  typename Workspace<T>::Frame frame(workspace);
  ffn_backward(context, weights.shared, tape.shared, x, dy, dx);

  ConstRows<T> dcombined = dy;
  if (spec.latent) {
    const Rows<T> dnormed = workspace.zeros(x.rows, tape.normed.columns);
    context.project_backward(tape.normed, weights.latent_up, dy, dnormed);
    dcombined = dnormed;
  }
  if (spec.latent_norm) {
    const Rows<T> through_norm = workspace.zeros(x.rows, tape.combined.columns);
    rms_norm_backward<T>(tape.combined, weights.latent_norm.data(), context.spec.norm_eps,
                         dcombined, through_norm, context.trained.gradient(weights.latent_norm),
                         context.team);
    dcombined = through_norm;
  }

  const Rows<T> dweights = workspace.zeros(x.rows, spec.top_k);
  const Rows<T> dinput = spec.latent ? workspace.zeros(x.rows, tape.input.columns) : dx;
  const auto pairs = pairs_by_expert(tape.ids, weights.experts.size());
  for (std::size_t e = 0; e < pairs.size(); ++e) {
    if (pairs[e].empty()) continue;
    expert_backward(context, spec, weights.experts[e], pairs[e], tape, dcombined, dinput, dweights);
  }
  if (spec.latent) context.project_backward(x, weights.latent_down, dinput, dx);

  // The choice is frozen with the router; its weights' dependence on x is not.
  const Rows<T> dlogits = workspace.zeros(x.rows, spec.experts);
  router_weights_backward<T>(router_args(spec, weights.router_bias.data()), tape.logits,
                             tape.ids.data(), dweights, dlogits);
  context.project_backward(x, weights.router, dlogits, dx);
}

#define INSTANTIATE(T)                                                                       \
  template FfnTape<T> ffn_forward(const LayerContext<T>&, const FfnWeights&, ConstRows<T>,   \
                                  Rows<T>);                                                  \
  template void ffn_backward(const LayerContext<T>&, const FfnWeights&, const FfnTape<T>&,   \
                             ConstRows<T>, ConstRows<T>, Rows<T>);                           \
  template MoeTape<T> moe_forward(const LayerContext<T>&, const MoeSpec&, const MoeWeights&, \
                                  const std::int32_t*, ConstRows<T>, Rows<T>);               \
  template void moe_backward(const LayerContext<T>&, const MoeSpec&, const MoeWeights&,      \
                             const MoeTape<T>&, ConstRows<T>, ConstRows<T>, Rows<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
