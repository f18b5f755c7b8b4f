#include "kernels/kernel_set.h"

#include "kernels/ref/operators.h"

namespace tandem {

const KernelSet& reference_kernels() {
  static constexpr KernelSet kSet = {
      .name = "ref",
      .linear = reference::linear,
      .linears = reference::linears,
      .embed = reference::embed,
      .rms_norm = reference::rms_norm,
      .gated_rms_norm = reference::gated_rms_norm,
      .sigmoid_gate = reference::sigmoid_gate,
      .add = reference::add,
      .gated_activation = reference::gated_activation,
      .residual_mix = reference::residual_mix,
      .short_conv = reference::short_conv,
      .kda_gates = reference::kda_gates,
      .kda_recurrent = reference::kda_recurrent,
      .kda_chunked = reference::kda_chunked,
      .mla_store = reference::mla_store,
      .mla_attention = reference::mla_attention,
      .router = reference::router,
      .experts = reference::experts,
  };
  return kSet;
}

}  // namespace tandem
