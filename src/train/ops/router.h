// The router's weights with their gradient (kernels/ops/moe.h). Conventions: ops/norm.h.
#pragma once

#include "train/rows.h"

namespace tandem::train {

struct RouterShape {
  const float* bias = nullptr;  // [experts]; moves the choice, and the weights if bias_in_weights
  std::int64_t top_k = 0;
  std::int64_t groups = 1;
  std::int64_t top_groups = 1;
  bool renormalize = true;
  bool bias_in_weights = false;
  float scaling = 1;
};

// Weights [T, top_k] of experts that were chosen before, `ids` [T, top_k], from the trainer's own
// full row of logits: also right for ids that are replayed and would not be chosen again.
template <typename T>
void router_weights(const RouterShape& shape, ConstRows<T> logits, const std::int32_t* ids,
                    Rows<T> weights);

// The choice is a constant: gradients reach the chosen experts' logits alone.
template <typename T>
void router_weights_backward(const RouterShape& shape, ConstRows<T> logits, const std::int32_t* ids,
                             ConstRows<T> dweights, Rows<T> dlogits);

}  // namespace tandem::train
