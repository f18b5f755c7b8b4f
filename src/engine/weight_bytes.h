// What a model's weights take in memory, counted without loading them.
#pragma once

#include <cstdint>

#include "model/checkpoint.h"
#include "model/model_spec.h"

namespace tandem {

// Matrices as the checkpoint stores them (F16 is widened to fp32 when it is loaded), or, where
// `checkpoint` is null or lacks the tensor, as the configuration announces them: bf16, and MXFP4
// for routed experts of a packed model. Vectors are held in fp32. Vision tensors are not loaded and
// not counted. `spec` may be one rank's (spec_of_rank), whatever the checkpoint's shapes.
std::int64_t weight_bytes(const ModelSpec& spec, const Checkpoint* checkpoint = nullptr);

}  // namespace tandem
