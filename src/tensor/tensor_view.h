// Non-owning views of row-major matrices and of weights.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace tandem {

// [rows, columns] with `stride` elements between the starts of neighbouring rows.
template <typename T>
struct RowsView {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;

  T* row(std::int64_t i) const { return data + i * stride; }
  // Columns [first, first + count) of every row.
  RowsView slice(std::int64_t first, std::int64_t count) const {
    return {data + first, rows, count, stride};
  }
  operator RowsView<const T>() const { return {data, rows, columns, stride}; }
};

using Activations = RowsView<float>;
using ConstActivations = RowsView<const float>;

enum class WeightLayout : std::uint8_t {
  kRows,   // row after row, as the checkpoint stores it
  kTiles,  // sixteen outputs side by side (weight_tiles.h); kBF16 and kMxfp4 only
};

// A weight of a linear map, [outputs, inputs].
//   kBF16, kF32: `data` is dense row-major.
//   kMxfp4:      `data` is packed [outputs, inputs/2], `scale` is [outputs, inputs/32] (mxfp4.h).
// In tiles the same elements stand in another order. Pointers are naturally aligned for the element
// type, and no more than that.
struct WeightMatrix {
  DType dtype = DType::kBF16;
  const void* data = nullptr;
  const std::uint8_t* scale = nullptr;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  WeightLayout layout = WeightLayout::kRows;
};

// Bytes that a product with this weight has to read.
std::int64_t weight_bytes(const WeightMatrix& weight);

}  // namespace tandem
