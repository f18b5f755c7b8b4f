// Feed-forward blocks: dense, and mixture of experts with shared experts and an optional latent
// space.
#include "model/router_args.h"
#include "model/step.h"

namespace tandem {
namespace {

struct Routing {
  std::vector<std::int32_t> ids;  // [T, top_k]
  float* weights = nullptr;       // [T, top_k]
};

Routing route(Step& step, std::int64_t layer, const MoeSpec& spec, const MoeWeights& weights,
              ConstActivations logits) {
  Routing routing;
  routing.ids.resize(static_cast<std::size_t>(logits.rows * spec.top_k));
  routing.weights = step.scratch.take(logits.rows * spec.top_k);
  RouterArgs args = router_args(spec, weights.router_bias.data());
  args.logits = logits;
  args.ids = routing.ids.data();
  args.weights = routing.weights;
  step.kernels.router(args, step.team);
  if (step.batch.observer != nullptr) step.batch.observer->on_experts(layer, routing.ids);
  return routing;
}

void activate(Step& step, Activations gate, ConstActivations up) {
  step.kernels.gated_activation(
      {.gate = gate, .up = up, .activation = step.spec.activation, .y = gate}, step.team);
}

}  // namespace

void dense_ffn(Step& step, const FfnWeights& weights, ConstActivations x, Activations y) {
  Scratch::Frame frame(step.scratch);
  step.enter(Stage::kFfnProjections);
  const Activations gate = step.scratch.take(x.rows, weights.gate.outputs);
  const Activations up = step.scratch.take(x.rows, weights.up.outputs);
  step.project_all({{x, weights.gate, gate}, {x, weights.up, up}});
  activate(step, gate, up);
  step.project_all({{gate, weights.down, y}});
}

// Routing and the shared experts look at the full width, also where the routed ones work in a
// narrower latent space.
void moe_ffn(Step& step, std::int64_t layer, const MoeSpec& spec, const MoeWeights& weights,
             ConstActivations x, Activations y) {
  Scratch::Frame frame(step.scratch);
  const auto take = [&](std::int64_t columns) { return step.scratch.take(x.rows, columns); };
  step.enter(Stage::kFfnProjections);
  const Activations logits = take(spec.experts);
  const Activations gate = take(spec.shared_intermediate);
  const Activations up = take(spec.shared_intermediate);
  const LinearArgs router{x, weights.router, logits};
  const LinearArgs shared_gate{x, weights.shared.gate, gate};
  const LinearArgs shared_up{x, weights.shared.up, up};
  ConstActivations input = x;
  if (spec.latent) {
    const Activations latent = take(*spec.latent);
    step.project_all({router, {x, weights.latent_down, latent}, shared_gate, shared_up});
    input = latent;
  } else {
    step.project_all({router, shared_gate, shared_up});
  }
  activate(step, gate, up);

  step.enter(Stage::kRouter);
  const Routing routing = route(step, layer, spec, weights, logits);
  const Activations routed = take(input.columns);
  step.enter(Stage::kExperts);
  step.kernels.experts({.x = input,
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

  step.enter(Stage::kFfnProjections);
  // The norm sees the combined sum, before the way back up.
  if (spec.latent_norm) step.rms_norm(routed, weights.latent_norm, step.spec.norm_eps, routed);
  const LinearArgs shared_down{gate, weights.shared.down, y};
  Activations sum = routed;
  if (spec.latent) {
    sum = take(x.columns);
    step.project_all({shared_down, {routed, weights.latent_up, sum}});
  } else {
    step.project_all({shared_down});
  }
  step.enter(Stage::kNorms);
  step.kernels.add({.a = sum, .b = y, .y = y}, step.team);
}

}  // namespace tandem
