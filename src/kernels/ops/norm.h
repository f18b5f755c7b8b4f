// Normalisations over the last dimension, in fp32, and the elementwise steps around sub-layers.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace tandem {

// y = x * rsqrt(mean(x^2) + eps) * weight; rounded once (spec: fused form). y may alias x.
struct RmsNormArgs {
  ConstActivations x;             // [T, H]
  const float* weight = nullptr;  // [H]
  float eps = 0;
  Activations y;  // [T, H]
};

// KDA's output norm, head by head: y = x * rsqrt(mean_d(x^2) + eps) * weight[d] * sigmoid(gate).
// The norm comes first, then the gate. y may alias x.
struct GatedRmsNormArgs {
  ConstActivations x;             // [T, heads*d]
  ConstActivations gate;          // [T, heads*d] logits
  const float* weight = nullptr;  // [d], shared by the heads
  std::int64_t heads = 0;
  float eps = 0;
  Activations y;  // [T, heads*d]
};

// y = x * sigmoid(gate), all [T, N]: MLA's output gate. y may alias x.
struct SigmoidGateArgs {
  ConstActivations x;
  ConstActivations gate;
  Activations y;
};

// y = a + b, all [T, H]. y may alias either.
struct AddArgs {
  ConstActivations a;
  ConstActivations b;
  Activations y;
};

// The two-branch activation of a feed-forward block.
//   kSwiGlu: silu(gate) * up
//   kSituGlu: [gate_beta tanh(gate/gate_beta) sigmoid(gate)] * [up_beta tanh(up/up_beta)]
enum class GatedActivation { kSwiGlu, kSituGlu };

struct ActivationSpec {
  GatedActivation kind = GatedActivation::kSwiGlu;
  float gate_beta = 0;  // kSituGlu only
  float up_beta = 0;    // kSituGlu only
};

// y = activation(gate, up), all [T, I]. y may alias gate.
struct GatedActivationArgs {
  ConstActivations gate;
  ConstActivations up;
  ActivationSpec activation;
  Activations y;
};

}  // namespace tandem
