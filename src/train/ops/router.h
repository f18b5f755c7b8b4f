// The router's weights with their gradient (kernels/ops/moe.h). Conventions: ops/norm.h.
#pragma once

#include "kernels/ops/moe.h"
#include "train/rows.h"

namespace tandem::train {

// Of RouterArgs only how weights are made counts here, not its rows.

// Weights [T, top_k] of experts that were chosen before, `ids` [T, top_k], from the trainer's own
// full row of logits: also right for ids that are replayed and would not be chosen again.
template <typename T>
void router_weights(const RouterArgs& shape, ConstRows<T> logits, const std::int32_t* ids,
                    Rows<T> weights);

// The choice is a constant: gradients reach the chosen experts' logits alone.
template <typename T>
void router_weights_backward(const RouterArgs& shape, ConstRows<T> logits, const std::int32_t* ids,
                             ConstRows<T> dweights, Rows<T> dlogits);

}  // namespace tandem::train
