// Causal attention over expanded keys and values, with its gradient (kernels/ops/mla.h has the
// absorbed form, which is the same function). Conventions: ops/norm.h.
#pragma once

#include <span>

#include "kernels/ops/mla.h"
#include "tensor/thread_team.h"
#include "train/rows.h"

namespace tandem::train {

// Inputs of the attention, and as Rows<T> their gradients:
//   q   [T, heads*(nope+pe)]     per head [nope | pe]
//   kv  [T, heads*(nope+value)]  kv_b times the normalised latent, per head [key nope | value]
//   pe  [T, pe]                  shared by the heads
template <typename T>
struct AttentionRows {
  Rows<T> q, kv, pe;
};
template <typename T>
struct ConstAttentionRows {
  ConstRows<T> q, kv, pe;
};

// o [T, heads*value]:  o_i = sum_{j<=i} softmax_j((nope+pe)^-1/2 <q_i, k_j>) v_j
template <typename T>
void attention(const MlaDims& dims, ConstAttentionRows<T> in,
               std::span<const PackedSequence> sequences, Rows<T> o, ThreadTeam& team);

// Probabilities are computed again row by row. Memory: O(rows of a sequence) a thread, and one
// [T, pe] a head.
template <typename T>
void attention_backward(const MlaDims& dims, ConstAttentionRows<T> in,
                        std::span<const PackedSequence> sequences, ConstRows<T> d_o,
                        AttentionRows<T> gradients, ThreadTeam& team);

}  // namespace tandem::train
