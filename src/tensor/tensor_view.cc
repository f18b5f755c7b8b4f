#include "tensor/tensor_view.h"

#include "tensor/mxfp4.h"

namespace tandem {

std::int64_t weight_bytes(const WeightMatrix& weight) {
  const std::int64_t elements = weight.outputs * weight.inputs;
  if (weight.dtype == DType::kMxfp4) return elements / 2 + elements / kMxfp4GroupSize;
  return elements * static_cast<std::int64_t>(element_bytes(weight.dtype));
}

}  // namespace tandem
