// The reference operators, by the names of KernelSet. Contracts: kernels/ops/*.h.
#pragma once

#include "kernels/kernel_set.h"

namespace tandem::reference {

void linear(const LinearArgs& args, ThreadTeam&) noexcept;
void linears(const LinearsArgs& args, ThreadTeam& team) noexcept;
void embed(const EmbedArgs& args, ThreadTeam&) noexcept;

void rms_norm(const RmsNormArgs& args, ThreadTeam&) noexcept;
void gated_rms_norm(const GatedRmsNormArgs& args, ThreadTeam&) noexcept;
void sigmoid_gate(const SigmoidGateArgs& args, ThreadTeam&) noexcept;
void add(const AddArgs& args, ThreadTeam&) noexcept;
void gated_activation(const GatedActivationArgs& args, ThreadTeam&) noexcept;
void residual_mix(const ResidualMixArgs& args, ThreadTeam&) noexcept;

void short_conv(const ShortConvArgs& args, ThreadTeam&) noexcept;
void kda_gates(const KdaGatesArgs& args, ThreadTeam&) noexcept;
void kda_recurrent(const KdaArgs& args, ThreadTeam&) noexcept;
void kda_chunked(const KdaArgs& args, ThreadTeam&) noexcept;

void mla_store(const MlaStoreArgs& args, ThreadTeam&) noexcept;
void mla_attention(const MlaAttentionArgs& args, ThreadTeam&) noexcept;

void router(const RouterArgs& args, ThreadTeam&) noexcept;
void experts(const ExpertsArgs& args, ThreadTeam&) noexcept;

}  // namespace tandem::reference
