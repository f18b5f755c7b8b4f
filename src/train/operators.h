// Forward operators of a training pass: the engine's kernels in fp32, src/train/ops in fp64.
//
// In fp32 every value is computed by the kernels that serve, on the same weights, so that the
// trainer's log-probs are the engine's. fp64 exists to check gradients.
#pragma once

#include <optional>
#include <span>

#include "base/ids.h"
#include "kernels/kernel_set.h"
#include "model/memory_layout.h"
#include "model/model_spec.h"
#include "model/weights.h"
#include "train/rows.h"
#include "train/workspace.h"

namespace tandem::train {

template <typename T>
struct LatentAttentionArgs {
  const MlaDims& dims;
  ConstRows<T> q;           // [T, heads*(nope+pe)]
  ConstRows<T> compressed;  // [T, latent+pe], before the norm
  const float* norm_weight = nullptr;
  float eps = 0;
  // kv_b as it is stored, unless an adapter has been merged into it.
  const WeightMatrix& kv_b;
  std::optional<ConstRows<T>> merged_kv_b = {};
  Rows<T> o;  // [T, heads*value]
};

// Outputs are overwritten. Sequences start at their first token. Results of an operator do not
// depend on the batch (kernel_set.h). Immutable but for the workspace; one thread at a time.
template <typename T>
class ForwardOperators {
 public:
  // `kernels` and `precision` matter for fp32 alone.
  ForwardOperators(const KernelSet& kernels, Precision precision, Workspace<T>& workspace,
                   ThreadTeam& team)
      : kernels_(kernels), precision_(precision), workspace_(workspace), team_(team) {}

  void embed(const WeightMatrix& table, std::span<const TokenId> ids, Rows<T> y) const;
  void linear(ConstRows<T> x, const WeightMatrix& w, Rows<T> y) const;
  // With values instead of a stored weight: w [outputs, inputs], dense.
  void linear(ConstRows<T> x, ConstRows<T> w, Rows<T> y) const;
  void rms_norm(ConstRows<T> x, const float* weight, float eps, Rows<T> y) const;
  void gated_rms_norm(ConstRows<T> x, ConstRows<T> gate, const float* weight, std::int64_t heads,
                      float eps, Rows<T> y) const;
  void sigmoid_gate(ConstRows<T> x, ConstRows<T> gate, Rows<T> y) const;
  void add(ConstRows<T> a, ConstRows<T> b, Rows<T> y) const;
  void gated_activation(const ActivationSpec& spec, ConstRows<T> gate, ConstRows<T> up,
                        Rows<T> y) const;
  // `rows` are the bank and, last, the stream.
  void residual_mix(std::span<const ConstRows<T>> rows, const float* query, float eps,
                    Rows<T> y) const;
  void short_conv(const KdaSpec& spec, ConstRows<T> x, const float* weight,
                  std::span<const PackedSequence> sequences, Rows<T> y) const;
  // decay and beta: logits in, gates out.
  void kda_gates(const KdaSpec& spec, const KdaWeights& weights, Rows<T> decay, Rows<T> beta) const;
  void delta_rule(const KdaSpec& spec, ConstRows<T> qkv, ConstRows<T> decay, ConstRows<T> beta,
                  std::span<const PackedSequence> sequences, Rows<T> o) const;
  void latent_attention(const LatentAttentionArgs<T>& args,
                        std::span<const PackedSequence> sequences) const;
  void router(const MoeSpec& spec, const float* bias, ConstRows<T> logits, std::int32_t* ids,
              Rows<T> weights) const;
  // The routed experts' sum without any adapter. y [T, width]
  void experts(const MoeSpec& spec, const ActivationSpec& activation,
               std::span<const ExpertWeights> experts, ConstRows<T> x, const std::int32_t* ids,
               ConstRows<T> weights, Rows<T> y) const;

 private:
  const KernelSet& kernels_;
  Precision precision_;
  Workspace<T>& workspace_;
  ThreadTeam& team_;
};

}  // namespace tandem::train
