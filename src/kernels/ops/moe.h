// Routing and the routed experts of a mixture-of-experts block.
#pragma once

#include <cstdint>

#include "kernels/ops/norm.h"
#include "tensor/tensor_view.h"

namespace tandem {

// Chooses `top_k` experts a token from router logits.
//   score = sigmoid(logit);  chosen: the largest score + bias, lowest id first on a tie
//   with groups > 1: only experts of the `top_groups` groups with the best sum of their two best
//   weight = score (+ bias if bias_in_weights) of the chosen, divided by (their sum + 1e-20) if
//   renormalize, times scaling
// The chosen of a token stand in ascending order of id, so that a sum over them has one order.
struct RouterArgs {
  ConstActivations logits = {};  // [T, experts]
  const float* bias = nullptr;   // [experts], for the choice
  std::int64_t top_k = 0;
  std::int64_t groups = 1;
  std::int64_t top_groups = 1;
  bool renormalize = true;
  bool bias_in_weights = false;
  float scaling = 1;
  std::int32_t* ids = nullptr;  // [T, top_k]
  float* weights = nullptr;     // [T, top_k]
};

struct ExpertWeights {
  WeightMatrix gate;  // w1 [I, L]
  WeightMatrix up;    // w3 [I, L]
  WeightMatrix down;  // w2 [L, I]
};

// y[t] = sum over the token's experts, in the order given, of weight * down(activation(gate x, up
// x)). Each product obeys the contract of LinearArgs, so a token's result does not depend on its
// companions.
struct ExpertsArgs {
  ConstActivations x;                      // [T, L]
  const ExpertWeights* experts = nullptr;  // [experts]
  std::int64_t expert_count = 0;
  std::int64_t intermediate = 0;      // I
  const std::int32_t* ids = nullptr;  // [T, top_k]
  const float* weights = nullptr;     // [T, top_k]
  std::int64_t top_k = 0;
  ActivationSpec activation;
  float* workspace = nullptr;  // experts_workspace_floats(...)
  Activations y;               // [T, L]
};

// Gate, up and output rows of every (token, expert) pair, and the token's input gathered once a
// pair.
inline std::int64_t experts_workspace_floats(std::int64_t tokens, std::int64_t top_k,
                                             std::int64_t width, std::int64_t intermediate) {
  return tokens * top_k * (2 * intermediate + 2 * width);
}

}  // namespace tandem
