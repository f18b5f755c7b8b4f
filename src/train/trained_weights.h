// What is trained of a model: gradients wanted and adapters applied, by the weight they belong to.
#pragma once

#include <optional>
#include <unordered_map>

#include "model/weights.h"
#include "train/rows.h"

namespace tandem::train {

// y = W x + scale B (A x) with gradients beside the factors. All views belong to the adapter.
template <typename T>
struct LoraFactors {
  ConstRows<T> a;  // [rank, inputs]
  ConstRows<T> b;  // [outputs, rank]
  Rows<T> da, db;
  T scale = 1;
};

// Keyed by the address of the weight inside a ModelWeights, which must not move. Holds no values;
// built once, then read by any number of passes.
template <typename T>
class TrainedWeights {
 public:
  void attach(const WeightMatrix& weight, const LoraFactors<T>& factors) {
    lora_[&weight] = factors;
  }
  // Gradients are added there: [outputs, inputs].
  void want(const WeightMatrix& weight, Rows<T> gradient) { matrices_[&weight] = gradient; }
  // As long as the vector; for KdaWeights::head_rate it is the gradient of its logarithm, A_log.
  void want(const WeightVector& weight, T* gradient) { vectors_[&weight] = gradient; }

  const LoraFactors<T>* lora(const WeightMatrix& weight) const {
    const auto found = lora_.find(&weight);
    return found == lora_.end() ? nullptr : &found->second;
  }
  std::optional<Rows<T>> gradient(const WeightMatrix& weight) const {
    const auto found = matrices_.find(&weight);
    return found == matrices_.end() ? std::nullopt : std::optional(found->second);
  }
  // nullptr if not wanted.
  T* gradient(const WeightVector& weight) const {
    const auto found = vectors_.find(&weight);
    return found == vectors_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<const WeightMatrix*, LoraFactors<T>> lora_;
  std::unordered_map<const WeightMatrix*, Rows<T>> matrices_;
  std::unordered_map<const WeightVector*, T*> vectors_;
};

}  // namespace tandem::train
