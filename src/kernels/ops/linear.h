// Products with a weight: y = x W^T, and the embedding look-up.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "tensor/tensor_view.h"

namespace tandem {

// x [T, inputs], w [outputs, inputs], y [T, outputs]; y must not alias x.
// Accumulates in fp32. The order of an output element's sum is a function of `inputs` and the
// weight's dtype and layout alone: it depends neither on T, nor on the row's place, nor on the
// number of threads. kMxfp4 in rows only.
struct LinearArgs {
  ConstActivations x;
  WeightMatrix w;
  Activations y;
};

// Several such products in one fan-out, in no order: those of one input, mostly. No y may be the x
// of another.
struct LinearsArgs {
  const LinearArgs* products = nullptr;  // [count]
  std::int64_t count = 0;
};

// y[t] = table[ids[t]], widened to fp32. table: kBF16 or kF32, [vocabulary, H]; ids are in range.
struct EmbedArgs {
  const TokenId* ids = nullptr;  // [T]
  WeightMatrix table;
  Activations y;  // [T, H]
};

}  // namespace tandem
