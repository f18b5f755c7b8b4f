// A model with an adapter merged into its weights, kept up to date: rollouts where no engine serves
// the adapter itself.
#pragma once

#include <memory>
#include <vector>

#include "model/model.h"
#include "train/adapter.h"

namespace tandem::train {

// Owns the model; the adapted matrices are fp32 copies. Merging rounds differently from W x +
// s B (A x), in the last digits of fp32. One thread at a time, and no forward pass while update()
// runs.
class MergedModel {
 public:
  // `weights` are those that `adapter` was made for, loaded once more. Starts as the base.
  MergedModel(const ModelSpec& spec, ModelWeights weights, const LoraAdapter<float>& adapter,
              const KernelSet& kernels, ThreadTeam& team);

  const Model& model() const { return *model_; }
  // Values of all adapted matrices from the adapter's.
  void update(LoraAdapter<float>& adapter, ThreadTeam& team);

 private:
  std::vector<std::vector<float>> merged_;  // [modules], each [outputs, inputs]
  std::unique_ptr<Model> model_;
};

}  // namespace tandem::train
