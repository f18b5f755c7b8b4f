// Products with a weight: y = x W^T, and the embedding look-up.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "tensor/tensor_view.h"

namespace tandem {

// x [T, inputs], w [outputs, inputs], y [T, outputs]; y must not alias x.
// Accumulates in fp32. The order of an output element's sum is a function of `inputs` and the
// weight's dtype alone: it depends neither on T, nor on the row's place, nor on the number of
// threads.
struct LinearArgs {
  ConstActivations x;
  WeightMatrix w;
  Activations y;
};

// y[t] = table[ids[t]], widened to fp32. table: kBF16 or kF32, [vocabulary, H]; ids are in range.
struct EmbedArgs {
  const TokenId* ids = nullptr;  // [T]
  WeightMatrix table;
  Activations y;  // [T, H]
};

}  // namespace tandem
