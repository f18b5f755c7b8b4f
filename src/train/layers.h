// The sub-layers of a model with what their way back needs: the forward pass of src/model once
// more, with intermediates kept.
//
// Every `forward` takes x [T, hidden], already normed, and overwrites y [T, hidden]; what it keeps
// lies in the context's workspace. Every `backward` takes what the forward of the same x kept and
// adds to dx, and to the gradients that the context's TrainedWeights want.
#pragma once

#include <vector>

#include "train/layer_context.h"

namespace tandem::train {

template <typename T>
struct KdaTape {
  Rows<T> raw, qkv;                           // [T, 3*inner] before and after the convolution
  Rows<T> decay_hidden, decay_logits, decay;  // [T, d], [T, inner], [T, inner]
  Rows<T> beta_logits, beta;                  // [T, heads]
  Rows<T> o;                                  // [T, inner] of the delta rule
  Rows<T> gate_hidden, gate;                  // [T, d] unless of full rank, [T, inner]
  Rows<T> gated;                              // [T, inner] before the output projection
};
template <typename T>
KdaTape<T> kda_forward(const LayerContext<T>& context, const KdaSpec& spec,
                       const KdaWeights& weights, ConstRows<T> x, Rows<T> y);
template <typename T>
void kda_backward(const LayerContext<T>& context, const KdaSpec& spec, const KdaWeights& weights,
                  const KdaTape<T>& tape, ConstRows<T> x, ConstRows<T> dy, Rows<T> dx);

template <typename T>
struct MlaTape {
  Rows<T> q_raw, q_normed;  // [T, q_rank] if the query is compressed
  Rows<T> q;                // [T, heads*(nope+pe)]
  Rows<T> compressed;       // [T, latent+pe]
  Rows<T> o, gate, gated;   // [T, heads*value]; `gated` is `o` without an output gate
};
template <typename T>
MlaTape<T> mla_forward(const LayerContext<T>& context, const MlaSpec& spec,
                       const MlaWeights& weights, ConstRows<T> x, Rows<T> y);
template <typename T>
void mla_backward(const LayerContext<T>& context, const MlaSpec& spec, const MlaWeights& weights,
                  const MlaTape<T>& tape, ConstRows<T> x, ConstRows<T> dy, Rows<T> dx);

template <typename T>
struct FfnTape {
  Rows<T> gate, up, act;  // [T, intermediate]
};
template <typename T>
FfnTape<T> ffn_forward(const LayerContext<T>& context, const FfnWeights& weights, ConstRows<T> x,
                       Rows<T> y);
template <typename T>
void ffn_backward(const LayerContext<T>& context, const FfnWeights& weights, const FfnTape<T>& tape,
                  ConstRows<T> x, ConstRows<T> dy, Rows<T> dx);

// Of the routed experts only the choice and the sum are kept; their inner activations are computed
// again, one expert at a time.
template <typename T>
struct MoeTape {
  Rows<T> logits;                 // [T, experts]
  std::vector<std::int32_t> ids;  // [T, top_k]
  Rows<T> weights;                // [T, top_k]
  Rows<T> input;                  // [T, width]; x itself without a latent space
  Rows<T> combined;               // [T, width] sum over the experts
  Rows<T> normed;                 // [T, width]; `combined` itself without a latent norm
  FfnTape<T> shared;
};
// `replayed` [T, top_k] or nullptr: model_pass.h, RecordedRoutes.
template <typename T>
MoeTape<T> moe_forward(const LayerContext<T>& context, const MoeSpec& spec,
                       const MoeWeights& weights, const std::int32_t* replayed, ConstRows<T> x,
                       Rows<T> y);
template <typename T>
void moe_backward(const LayerContext<T>& context, const MoeSpec& spec, const MoeWeights& weights,
                  const MoeTape<T>& tape, ConstRows<T> x, ConstRows<T> dy, Rows<T> dx);

}  // namespace tandem::train
