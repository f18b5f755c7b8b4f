// Kimi Delta Attention with its gradients: the operators of kernels/ops/kda.h for float and double.
// Conventions: ops/norm.h.
#pragma once

#include <optional>
#include <span>

#include "tensor/thread_team.h"
#include "train/rows.h"

namespace tandem::train {

// Depthwise causal convolution, then SiLU; weight [width, channels], its last row multiplies the
// current token. Zeros before a sequence's first token.
template <typename T>
void short_conv(ConstRows<T> x, const float* weight, std::int64_t width,
                std::span<const PackedSequence> sequences, Rows<T> y);
template <typename T>
void short_conv_backward(ConstRows<T> x, const float* weight, std::int64_t width,
                         std::span<const PackedSequence> sequences, ConstRows<T> dy, Rows<T> dx,
                         T* dweight, ThreadTeam& team);

struct KdaGateWeights {
  const float* dt_bias = nullptr;    // [heads*d]
  const float* head_rate = nullptr;  // [heads] exp(A_log)
  std::optional<float> lower_bound = {};
  std::int64_t heads = 0;
};
template <typename T>
struct KdaGateGradients {
  T* dt_bias = nullptr;  // [heads*d] or not wanted
  T* a_log = nullptr;    // [heads], of log(head_rate), or not wanted
};

// decay [T, heads*d] and beta [T, heads] from their logits.
template <typename T>
void kda_gates(const KdaGateWeights& weights, ConstRows<T> decay_logits, ConstRows<T> beta_logits,
               Rows<T> decay, Rows<T> beta);
template <typename T>
void kda_gates_backward(const KdaGateWeights& weights, ConstRows<T> decay_logits,
                        ConstRows<T> beta_logits, ConstRows<T> ddecay, ConstRows<T> dbeta,
                        Rows<T> ddecay_logits, Rows<T> dbeta_logits,
                        const KdaGateGradients<T>& gradients);

// What the delta rule reads, and, as gradients, what its backward adds to.
template <typename T>
struct DeltaRuleRows {
  Rows<T> qkv;    // [T, 3*heads*d] after the convolution; q and k are normalised inside
  Rows<T> decay;  // [T, heads*d], <= 0
  Rows<T> beta;   // [T, heads]
};
template <typename T>
struct ConstDeltaRuleRows {
  ConstRows<T> qkv, decay, beta;
};
struct DeltaRuleShape {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
};

// o [T, heads*d]; the state is zero before each sequence.
template <typename T>
void delta_rule(const DeltaRuleShape& shape, ConstDeltaRuleRows<T> in,
                std::span<const PackedSequence> sequences, Rows<T> o, ThreadTeam& team);

// Reverse mode of the recurrence, token by token. The states at the start of each kDeltaRuleSegment
// tokens are kept; those in between are computed again, one segment at a time. Memory a head:
// (rows / segment + segment) * d^2.
template <typename T>
void delta_rule_backward_recurrent(const DeltaRuleShape& shape, ConstDeltaRuleRows<T> in,
                                   std::span<const PackedSequence> sequences, ConstRows<T> d_o,
                                   DeltaRuleRows<T> gradients, ThreadTeam& team);

// The same gradients through the WY form of a chunk: a few small products a chunk instead of
// rank-one updates a token. Decays enter only as exp(G_i - G_j) with i >= j, never larger than 1.
template <typename T>
void delta_rule_backward_chunked(const DeltaRuleShape& shape, ConstDeltaRuleRows<T> in,
                                 std::span<const PackedSequence> sequences, ConstRows<T> d_o,
                                 DeltaRuleRows<T> gradients, ThreadTeam& team);

inline constexpr std::int64_t kDeltaRuleSegment = 16;

}  // namespace tandem::train
