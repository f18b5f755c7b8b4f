// One table of operators per implementation. A model picks its table once, when it is built.
//
// Every operator is noexcept, allocates nothing that outlives the call, and validates nothing:
// shapes are checked where weights are loaded. All outputs are fully overwritten. Contracts:
// kernels/ops/*.h.
#pragma once

#include <string_view>

#include "kernels/ops/kda.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/mla.h"
#include "kernels/ops/moe.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/residual_mix.h"
#include "tensor/thread_team.h"

namespace tandem {

struct KernelSet {
  std::string_view name;
  bool wants_tiles = false;  // products are fastest with weights in tiles (weight_tiles.h)

  void (*linear)(const LinearArgs&, ThreadTeam&) noexcept;
  void (*linears)(const LinearsArgs&, ThreadTeam&) noexcept;
  void (*embed)(const EmbedArgs&, ThreadTeam&) noexcept;

  void (*rms_norm)(const RmsNormArgs&, ThreadTeam&) noexcept;
  void (*gated_rms_norm)(const GatedRmsNormArgs&, ThreadTeam&) noexcept;
  void (*sigmoid_gate)(const SigmoidGateArgs&, ThreadTeam&) noexcept;
  void (*add)(const AddArgs&, ThreadTeam&) noexcept;
  void (*gated_activation)(const GatedActivationArgs&, ThreadTeam&) noexcept;
  void (*residual_mix)(const ResidualMixArgs&, ThreadTeam&) noexcept;

  void (*short_conv)(const ShortConvArgs&, ThreadTeam&) noexcept;
  void (*kda_gates)(const KdaGatesArgs&, ThreadTeam&) noexcept;
  void (*kda_recurrent)(const KdaArgs&, ThreadTeam&) noexcept;
  void (*kda_chunked)(const KdaArgs&, ThreadTeam&) noexcept;

  void (*mla_store)(const MlaStoreArgs&, ThreadTeam&) noexcept;
  void (*mla_attention)(const MlaAttentionArgs&, ThreadTeam&) noexcept;

  void (*router)(const RouterArgs&, ThreadTeam&) noexcept;
  void (*experts)(const ExpertsArgs&, ThreadTeam&) noexcept;
};

// The specification in plain loops: single-threaded, double accumulation.
const KernelSet& reference_kernels();

// SIMD (Highway), for the best instruction set of this processor. The default.
const KernelSet& cpu_kernels();

}  // namespace tandem
