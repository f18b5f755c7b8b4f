#include "kernels/kernel_set.h"

#include "kernels/cpu/operators.h"
#include "kernels/cpu/targets.h"
// After targets.h.
#include <hwy/targets.h>

namespace tandem {

std::int64_t cpu::instruction_sets() { return hwy::SupportedTargets() & HWY_TARGETS; }

const KernelSet& cpu_kernels() {
  static constexpr KernelSet kSet = {
      .name = "cpu",
      .wants_tiles = true,
      .linear = cpu::linear,
      .linears = cpu::linears,
      .embed = cpu::embed,
      .rms_norm = cpu::rms_norm,
      .gated_rms_norm = cpu::gated_rms_norm,
      .sigmoid_gate = cpu::sigmoid_gate,
      .add = cpu::add,
      .gated_activation = cpu::gated_activation,
      .residual_mix = cpu::residual_mix,
      .short_conv = cpu::short_conv,
      .kda_gates = cpu::kda_gates,
      .kda_recurrent = cpu::kda_recurrent,
      .kda_chunked = cpu::kda_chunked,
      .mla_store = cpu::mla_store,
      .mla_attention = cpu::mla_attention,
      .router = cpu::router,
      .experts = cpu::experts,
  };
  return kSet;
}

}  // namespace tandem
