// Where a model keeps each layer's state inside a request's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops/kda.h"
#include "kernels/ops/mla.h"
#include "model/model_spec.h"
#include "tensor/state_layout.h"

namespace tandem {

// Offsets of one layer. A KDA layer has a recurrent state and a convolution window inside the
// request's state block; an MLA layer has a share of every token's row.
struct LayerMemory {
  std::int64_t state_offset_bytes = 0;
  std::int64_t window_offset_bytes = 0;
  std::int64_t row_bytes = 0;         // of this layer's latent row
  std::int64_t row_prefix_bytes = 0;  // row bytes of the MLA layers before it
};

// A state block starts 64-byte aligned and all zero. A page of n tokens holds the layers one after
// the other, n rows each: layer i's rows start at row_prefix_bytes * n.
struct MemoryLayout {
  StateLayout total;
  std::vector<LayerMemory> layers;
  // Storage of latent rows and convolution windows; recurrent states are always fp32.
  DType cache_dtype = DType::kF32;
};

MemoryLayout memory_layout(const ModelSpec& spec, Precision precision);

}  // namespace tandem
