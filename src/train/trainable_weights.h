// All weights of a model in fp32, to be trained: for small models and their pre-training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model_spec.h"
#include "model/weights.h"
#include "train/trained_weights.h"

namespace tandem::train {

// One weight's place in the flat arrays.
struct WeightSlot {
  enum class Kind {
    kMatrix,
    kVector,
    kLogVector,  // the model reads exp of the values: KDA's A_log
    kFixed       // never has a gradient: the router's correction bias
  };
  std::string path;  // weight_walk.h
  Kind kind = Kind::kMatrix;
  std::int64_t offset = 0;
  std::int64_t rows = 0;  // 1 for vectors
  std::int64_t columns = 0;
};

// Owns a ModelWeights whose matrices lie in `values`; its vectors are copies that refresh() brings
// up to date. Matrices come first, so that weight decay can be theirs alone. Experts that were
// packed are widened. Movable: addresses inside weights() stay. Not thread-safe.
template <typename T>
class TrainableWeights {
 public:
  TrainableWeights(const ModelSpec& spec, ModelWeights weights);

  const ModelWeights& weights() const { return *weights_; }
  const std::vector<WeightSlot>& slots() const { return slots_; }
  // Values before this one are of matrices.
  std::size_t matrix_values() const { return matrix_values_; }

  const std::vector<float>& values() const { return values_; }
  const std::vector<T>& gradients() const { return gradients_; }
  // To be written in place: the model's matrices point into the values.
  std::span<float> mutable_values() { return values_; }
  std::span<T> mutable_gradients() { return gradients_; }
  void clear_gradients();

  // After every change of `values`.
  void refresh();
  // Registers a gradient for every weight that can have one.
  void want_all(TrainedWeights<T>& trained);

 private:
  bool tied_ = false;
  std::unique_ptr<ModelWeights> weights_;
  std::vector<WeightSlot> slots_;
  std::vector<WeightMatrix*> matrices_;  // of the first slots
  std::vector<WeightVector*> vectors_;   // of the others
  std::size_t matrix_values_ = 0;
  std::vector<float> values_;
  std::vector<T> gradients_;
};

// How routed experts are stored.
enum class ExpertStorage { kF32, kMxfp4 };

// Writes a checkpoint folder that Model::load reads back to the same values (packed experts: to the
// nearest that MXFP4 has): `config` as its config.json and one model.safetensors in fp32.
// kInvalidArgument if an expert's width is no multiple of 32 and they are to be packed.
template <typename T>
Result<void> save_checkpoint(const ModelSpec& spec, const TrainableWeights<T>& weights,
                             const std::string& config, const std::filesystem::path& folder,
                             ExpertStorage experts);

}  // namespace tandem::train
