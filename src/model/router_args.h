// How a block routes, as the router's operator takes it.
#pragma once

#include "kernels/ops/moe.h"
#include "model/model_spec.h"

namespace tandem {

// All but the rows: logits, ids and weights are the caller's.
inline RouterArgs router_args(const MoeSpec& spec, const float* bias) {
  return {.bias = bias,
          .top_k = spec.top_k,
          .groups = spec.groups,
          .top_groups = spec.top_groups,
          .renormalize = spec.renormalize,
          .bias_in_weights = spec.bias_in_weights,
          .scaling = spec.scaling};
}

}  // namespace tandem
