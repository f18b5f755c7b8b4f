// What the layers of one training pass share.
#pragma once

#include <span>

#include "model/model_spec.h"
#include "train/operators.h"
#include "train/trained_weights.h"
#include "train/workspace.h"

namespace tandem::train {

// Lives as long as one pass over a batch.
template <typename T>
struct LayerContext {
  const ModelSpec& spec;
  const ForwardOperators<T>& operators;
  const TrainedWeights<T>& trained;
  std::span<const PackedSequence> sequences;
  Workspace<T>& workspace;
  ThreadTeam& team;

  // y = W x + scale B (A x): the kernel's product, rounded, then the adapter's added to it. Fresh
  // rows of the caller's frame, or into y.
  Rows<T> project(ConstRows<T> x, const WeightMatrix& w) const;
  void project(ConstRows<T> x, const WeightMatrix& w, Rows<T> y) const;

  // The three parts of its gradient; each adds.
  void input_gradient(const WeightMatrix& w, ConstRows<T> dy, Rows<T> dx) const;
  void weight_gradients(ConstRows<T> x, const WeightMatrix& w, ConstRows<T> dy) const;
  void project_backward(ConstRows<T> x, const WeightMatrix& w, ConstRows<T> dy, Rows<T> dx) const {
    weight_gradients(x, w, dy);
    input_gradient(w, dy, dx);
  }

  // W + scale B A as values, for an operator that cannot take an adapter apart.
  Rows<T> merged(const WeightMatrix& w) const;
};

}  // namespace tandem::train
