#include "model/weights.h"

#include "model/weight_loader.h"
#include "model/weight_table.h"

namespace tandem {

Result<ModelWeights> load_weights(const ModelSpec& spec, Checkpoint checkpoint,
                                  const LoadOptions& options) {
  ModelWeights weights;
  weights.checkpoint = std::move(checkpoint);
  WeightLoader loader(weights.checkpoint, weights.storage, options);
  visit_weights(spec, weights, loader);
  TRY(loader.finish());
  return weights;
}

}  // namespace tandem
