// What the layers of one forward step share, and the two kinds of sub-layer.
#pragma once

#include <initializer_list>
#include <vector>

#include "model/model.h"

namespace tandem {

// The current step. Lives on the stack of Model::forward.
struct Step {
  const ModelSpec& spec;
  const ForwardBatch& batch;
  const KernelSet& kernels;
  Precision precision;
  const MemoryLayout& memory;
  Scratch& scratch;
  ThreadTeam& team;

  std::int64_t rows() const { return batch.rows(); }

  // What follows belongs to `stage`.
  void enter(Stage stage) const {
    if (batch.stages != nullptr) batch.stages->on_stage(stage);
  }

  // y = x W^T for several products at once.
  void project_all(std::initializer_list<LinearArgs> products) const {
    kernels.linears({products.begin(), static_cast<std::int64_t>(products.size())}, team);
  }

  void rms_norm(ConstActivations x, const WeightVector& weight, float eps, Activations y) {
    kernels.rms_norm({.x = x, .weight = weight.data(), .eps = eps, .y = y}, team);
  }
};

// Attention of layer `layer`: x [T, hidden], already normed, to y [T, hidden]. Reads and advances
// the layer's memory of every sequence in the batch.
void kda_attention(Step& step, std::int64_t layer, const KdaSpec& spec, const KdaWeights& weights,
                   ConstActivations x, Activations y);
void mla_attention(Step& step, std::int64_t layer, const MlaSpec& spec, const MlaWeights& weights,
                   ConstActivations x, Activations y);

// Feed-forward block: x [T, hidden], already normed, to y [T, hidden].
void dense_ffn(Step& step, const FfnWeights& weights, ConstActivations x, Activations y);
void moe_ffn(Step& step, std::int64_t layer, const MoeSpec& spec, const MoeWeights& weights,
             ConstActivations x, Activations y);

}  // namespace tandem
