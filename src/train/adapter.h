// A LoRA adapter: factors for chosen projections of a model, their gradients, and where they
// belong.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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
  // "all-linear" stands for every projection but the head and the routers.
  std::vector<std::string> targets;
};
float lora_scale(float alpha, std::int64_t rank, bool rank_stabilised);

// Whether a name of a module, full or its end, means the module at `path`.
bool names_module(std::string_view name, std::string_view path);

// One projection of a model.
struct Projection {
  std::string path;  // as in a checkpoint, without ".weight"
  const WeightMatrix* weight = nullptr;
};
// Every projection that can be adapted: all matrices but the embedding.
std::vector<Projection> adaptable_projections(const ModelSpec& spec, const ModelWeights& weights);

// One adapted projection. Offsets count elements of the adapter's values.
struct LoraModule {
  Projection projection;
  std::int64_t rank = 0;
  float alpha = 0;
  float scale = 0;
  std::int64_t a_offset = 0;  // [rank, inputs]
  std::int64_t b_offset = 0;  // [outputs, rank]

  const std::string& path() const { return projection.path; }
  std::int64_t inputs() const { return projection.weight->inputs; }
  std::int64_t outputs() const { return projection.weight->outputs; }
  std::int64_t elements() const { return rank * (inputs() + outputs()); }
};

// Values and gradients lie in two flat arrays of one layout, module after module, A before B, so
// that optimisers, norms and checkpoints need no notion of modules. Points into a ModelWeights that
// outlives it and does not move. Move-only in effect: views into a moved adapter stay valid, a
// copy's are its own. Not thread-safe.
template <typename T>
class LoraAdapter {
 public:
  // A is uniform in +-sqrt(6 / (inputs + rank)), drawn from `seed`, the path and the element's
  // place, and B is zero: a new adapter changes no answer. kInvalidArgument names a target that
  // matches no projection, and a rank or alpha out of range.
  static Result<LoraAdapter> create(const ModelSpec& spec, const ModelWeights& weights,
                                    const LoraConfig& config, std::uint64_t seed);
  // Modules with everything but their offsets set; all values zero.
  static LoraAdapter with_modules(LoraConfig config, std::vector<LoraModule> modules);

  const LoraConfig& config() const { return config_; }
  const std::vector<LoraModule>& modules() const { return modules_; }
  const std::vector<T>& values() const { return values_; }
  const std::vector<T>& gradients() const { return gradients_; }
  // To be written in place: passes hold views of them.
  std::span<T> mutable_values() { return values_; }
  std::span<T> mutable_gradients() { return gradients_; }
  void clear_gradients();

  Rows<T> a(const LoraModule& m) { return view(values_, m.a_offset, m.rank, m.inputs()); }
  Rows<T> b(const LoraModule& m) { return view(values_, m.b_offset, m.outputs(), m.rank); }

  // Views into this adapter's arrays.
  void attach_to(TrainedWeights<T>& trained);

 private:
  static Rows<T> view(std::vector<T>& from, std::int64_t offset, std::int64_t rows,
                      std::int64_t columns) {
    return {from.data() + offset, rows, columns, columns};
  }

  LoraConfig config_;
  std::vector<LoraModule> modules_;
  std::vector<T> values_, gradients_;
};

}  // namespace tandem::train
