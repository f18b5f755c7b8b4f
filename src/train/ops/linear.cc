#include "train/ops/linear.h"

#include <cstring>

#include "base/check.h"
#include "tensor/mxfp4.h"

namespace tandem::train {
namespace {

// Element i of a row-major array that may not be aligned for its type.
template <typename Element>
Element element_at(const void* data, std::int64_t i) {
  Element element;
  std::memcpy(&element, static_cast<const std::byte*>(data) + i * std::int64_t{sizeof element},
              sizeof element);
  return element;
}

template <typename T>
void decode_row(const WeightMatrix& weight, std::int64_t row, T* values) {
  const std::int64_t first = row * weight.inputs;
  switch (weight.dtype) {
    case DType::kBF16:
      for (std::int64_t i = 0; i < weight.inputs; ++i) {
        values[i] = to_float(element_at<BF16>(weight.data, first + i));
      }
      return;
    case DType::kF32:
      for (std::int64_t i = 0; i < weight.inputs; ++i) {
        values[i] = element_at<float>(weight.data, first + i);
      }
      return;
    case DType::kMxfp4: {
      const auto* packed = static_cast<const std::uint8_t*>(weight.data) + first / 2;
      const std::uint8_t* scale = weight.scale + first / kMxfp4GroupSize;
      for (std::int64_t i = 0; i < weight.inputs; ++i) {
        const int code = (packed[i / 2] >> (i % 2 * 4)) & 15;
        values[i] =
            kE2m1Values[static_cast<std::size_t>(code)] * e8m0_to_float(scale[i / kMxfp4GroupSize]);
      }
      return;
    }
    default:
      CHECK(false, "a weight of dtype {}", to_string(weight.dtype));
  }
}

}  // namespace

template <typename T>
void decode_weight(const WeightMatrix& weight, Rows<T> values, ThreadTeam& team) {
  team.parallel_for(weight.outputs, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) decode_row(weight, row, values.row(row));
  });
}

template <typename T>
void embed(const WeightMatrix& table, std::span<const TokenId> ids, Rows<T> y) {
  for (std::size_t t = 0; t < ids.size(); ++t) {
    decode_row(table, ids[t], y.row(static_cast<std::int64_t>(t)));
  }
}

template <typename T>
void embed_backward(std::span<const TokenId> ids, ConstRows<T> dy, Rows<T> dtable) {
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const T* from = dy.row(static_cast<std::int64_t>(t));
    T* to = dtable.row(ids[t]);
    for (std::int64_t i = 0; i < dy.columns; ++i) to[i] += from[i];
  }
}

#define INSTANTIATE(T)                                                         \
  template void decode_weight(const WeightMatrix&, Rows<T>, ThreadTeam&);      \
  template void embed(const WeightMatrix&, std::span<const TokenId>, Rows<T>); \
  template void embed_backward(std::span<const TokenId>, ConstRows<T>, Rows<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
