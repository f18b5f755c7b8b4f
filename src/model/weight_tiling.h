// Moves weights out of their files into memory that products stream well.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "model/model_spec.h"
#include "model/weights.h"

namespace tandem {

// Copies every matrix but the embedding, of which a step reads single rows, to `weights.tiles`: in
// tiles (tensor/weight_tiles.h) those of `linear`, and with `tile_experts` the routed experts; the
// others as they are. Afterwards no page of a file stays mapped in but what an embedding needs.
// Does nothing, with a line in the log, where they would take more than `limit_bytes`.
Result<void> tile_weights(const ModelSpec& spec, bool tile_experts, std::int64_t limit_bytes,
                          ModelWeights& weights);

}  // namespace tandem
