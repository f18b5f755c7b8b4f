// The SIMD operators, one function an entry of KernelSet. Contracts: kernels/ops/*.h.
#pragma once

#include "kernels/kernel_set.h"

namespace tandem::cpu {

// Those that the operators were compiled for and this processor has, as Highway's bits.
std::int64_t instruction_sets();

void linear(const LinearArgs& args, ThreadTeam& team) noexcept;
void linears(const LinearsArgs& args, ThreadTeam& team) noexcept;
void embed(const EmbedArgs& args, ThreadTeam& team) noexcept;

void rms_norm(const RmsNormArgs& args, ThreadTeam& team) noexcept;
void gated_rms_norm(const GatedRmsNormArgs& args, ThreadTeam& team) noexcept;
void sigmoid_gate(const SigmoidGateArgs& args, ThreadTeam& team) noexcept;
void add(const AddArgs& args, ThreadTeam& team) noexcept;
void gated_activation(const GatedActivationArgs& args, ThreadTeam& team) noexcept;
void residual_mix(const ResidualMixArgs& args, ThreadTeam& team) noexcept;

void short_conv(const ShortConvArgs& args, ThreadTeam& team) noexcept;
void kda_gates(const KdaGatesArgs& args, ThreadTeam& team) noexcept;
void kda_recurrent(const KdaArgs& args, ThreadTeam& team) noexcept;
void kda_chunked(const KdaArgs& args, ThreadTeam& team) noexcept;

void mla_store(const MlaStoreArgs& args, ThreadTeam& team) noexcept;
void mla_attention(const MlaAttentionArgs& args, ThreadTeam& team) noexcept;

void router(const RouterArgs& args, ThreadTeam& team) noexcept;
void experts(const ExpertsArgs& args, ThreadTeam& team) noexcept;

}  // namespace tandem::cpu
