// The names and shapes of a model's tensors, said once.
//
// The loader binds them to a checkpoint, the generator of random checkpoints writes them. A family
// that names or shapes its tensors in another way is added in weight_table.cc.
#pragma once

#include <cstdint>
#include <string>

#include "model/model_spec.h"
#include "model/weights.h"

namespace tandem {

// Sees every tensor of a model with the place that it is read into.
class WeightVisitor {
 public:
  virtual ~WeightVisitor() = default;
  // A dense matrix [outputs, inputs].
  virtual void matrix(const std::string& name, std::int64_t outputs, std::int64_t inputs,
                      WeightMatrix& to) = 0;
  // A matrix of a routed expert: STEM.weight [outputs, inputs], or packed as MXFP4 in
  // STEM.weight_packed [outputs, inputs/2] and STEM.weight_scale [outputs, inputs/32].
  virtual void expert(const std::string& stem, std::int64_t outputs, std::int64_t inputs,
                      WeightMatrix& to) = 0;
  // [size]
  virtual void vector(const std::string& name, std::int64_t size, WeightVector& to) = 0;
  // A_log, one value a head: [n >= heads] with a tail of zeros, or [1, 1, heads, 1]. Kept as exp.
  virtual void head_rate(const std::string& name, const KdaSpec& spec, WeightVector& to) = 0;
  // One of the three convolutions, part 0, 1, 2 for q, k, v: [inner, 1, width] or [inner, width],
  // into the columns of `to` [width, 3 * inner] that belong to the part.
  virtual void conv(const std::string& name, std::int64_t part, const KdaSpec& spec,
                    WeightVector& to) = 0;
  // An Attention-Residual site: STEM_norm.weight [size] times STEM_proj.weight [1, size].
  virtual void mix(const std::string& stem, std::int64_t size, WeightVector& to) = 0;
};

// Gives `weights` the layers of `spec`, where it has not got them, and visits every tensor in a
// fixed order, layer by layer.
void visit_weights(const ModelSpec& spec, ModelWeights& weights, WeightVisitor& visitor);

}  // namespace tandem
