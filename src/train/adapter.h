// A LoRA adapter: factors for chosen projections of a model, their gradients, and where they
// belong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/model_spec.h"
#include "model/weights.h"
#include "train/trained_weights.h"

namespace tandem::train {

// y = W x + scale B (A x) with scale = alpha / rank, or alpha / sqrt(rank).
struct LoraConfig {
  std::int64_t rank = 16;
  float alpha = 32;
  bool rank_stabilised = false;  // PEFT's use_rslora
  // A projection is adapted if its path is one of these or ends in "." and one of these.
  // "all-linear" stands for every projection but the head.
  std::vector<std::string> targets;

  float scale() const;
};

// One adapted projection. Offsets count elements of the adapter's values.
struct LoraModule {
  std::string path;  // as in a checkpoint, without ".weight"
  const WeightMatrix* weight = nullptr;
  std::int64_t inputs = 0, outputs = 0;
  std::int64_t a_offset = 0;  // [rank, inputs]
  std::int64_t b_offset = 0;  // [outputs, rank]
};

// Values and gradients lie in two flat arrays of one layout, so that optimisers, norms and
// checkpoints need no notion of modules. Points into a ModelWeights that outlives it and does not
// move. Not thread-safe.
template <typename T>
class LoraAdapter {
 public:
  // A is uniform in +-sqrt(6 / (inputs + rank)), drawn from `seed`, the path and the element's
  // place, and B is zero: a new adapter changes no answer. kInvalidArgument names a target that
  // matches no projection, and a rank or alpha out of range.
  static Result<LoraAdapter> create(const ModelSpec& spec, const ModelWeights& weights,
                                    const LoraConfig& config, std::uint64_t seed);

  const LoraConfig& config() const { return config_; }
  const std::vector<LoraModule>& modules() const { return modules_; }
  std::vector<T>& values() { return values_; }
  const std::vector<T>& values() const { return values_; }
  std::vector<T>& gradients() { return gradients_; }
  const std::vector<T>& gradients() const { return gradients_; }
  void clear_gradients();

  Rows<T> a(const LoraModule& module) {
    return rows(values_, module.a_offset, config_.rank, module.inputs);
  }
  Rows<T> b(const LoraModule& module) {
    return rows(values_, module.b_offset, module.outputs, config_.rank);
  }

  // Views into this adapter, which must not move while they are used.
  void attach_to(TrainedWeights<T>& trained);

 private:
  static Rows<T> rows(std::vector<T>& from, std::int64_t offset, std::int64_t count,
                      std::int64_t columns) {
    return {from.data() + offset, count, columns, columns};
  }

  LoraConfig config_;
  std::vector<LoraModule> modules_;
  std::vector<T> values_, gradients_;
};

}  // namespace tandem::train
