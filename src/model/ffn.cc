// Feed-forward blocks: dense, and mixture of experts with shared experts and an optional latent
// space.
#include "model/step.h"

namespace tandem {
namespace {

struct Routing {
  std::vector<std::int32_t> ids;  // [T, top_k]
  float* weights = nullptr;       // [T, top_k]
};

Routing route(Step& step, std::int64_t layer, const MoeSpec& spec, const MoeWeights& weights,
              ConstActivations x) {
  Routing routing;
  routing.ids.resize(static_cast<std::size_t>(x.rows * spec.top_k));
  routing.weights = step.scratch.take(x.rows * spec.top_k);
  step.kernels.router({.logits = step.project(x, weights.router),
                       .bias = weights.router_bias.data(),
                       .top_k = spec.top_k,
                       .groups = spec.groups,
                       .top_groups = spec.top_groups,
                       .renormalize = spec.renormalize,
                       .bias_in_weights = spec.bias_in_weights,
                       .scaling = spec.scaling,
                       .ids = routing.ids.data(),
                       .weights = routing.weights},
                      step.team);
  if (step.batch.observer != nullptr) step.batch.observer->on_experts(layer, routing.ids);
  return routing;
}

}  // namespace

void dense_ffn(Step& step, const FfnWeights& weights, ConstActivations x, Activations y) {
  Scratch::Frame frame(step.scratch);
  step.enter(Stage::kDenseFfn);
  Activations gate = step.project(x, weights.gate);
  Activations up = step.project(x, weights.up);
  step.kernels.gated_activation(
      {.gate = gate, .up = up, .activation = step.spec.activation, .y = gate}, step.team);
  step.kernels.linear({.x = gate, .w = weights.down, .y = y}, step.team);
}

void moe_ffn(Step& step, std::int64_t layer, const MoeSpec& spec, const MoeWeights& weights,
             ConstActivations x, Activations y) {
  Scratch::Frame frame(step.scratch);
  const KernelSet& kernels = step.kernels;
  // Routing looks at the full width, also where the experts work in a narrower latent space.
  step.enter(Stage::kRouter);
  const Routing routing = route(step, layer, spec, weights, x);
  step.enter(Stage::kLatent);
  const ConstActivations input =
      spec.latent ? ConstActivations(step.project(x, weights.latent_down)) : x;
  Activations routed = step.scratch.take(x.rows, input.columns);
  step.enter(Stage::kExperts);
  kernels.experts({.x = input,
                   .experts = weights.experts.data(),
                   .expert_count = spec.experts,
                   .intermediate = spec.intermediate,
                   .ids = routing.ids.data(),
                   .weights = routing.weights,
                   .top_k = spec.top_k,
                   .activation = step.spec.activation,
                   .workspace = step.scratch.take(experts_workspace_floats(
                       x.rows, spec.top_k, input.columns, spec.intermediate)),
                   .y = routed},
                  step.team);
  step.enter(Stage::kLatent);
  // The norm sees the combined sum, before the way back up; the shared experts see the full width.
  if (spec.latent_norm) step.rms_norm(routed, weights.latent_norm, step.spec.norm_eps, routed);
  if (spec.latent) routed = step.project(routed, weights.latent_up);
  dense_ffn(step, weights.shared, x, y);
  step.enter(Stage::kNorms);
  kernels.add({.a = routed, .b = y, .y = y}, step.team);
}

}  // namespace tandem
