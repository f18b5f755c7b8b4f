// Names that all of training shares: views of row-major matrices, and where sequences lie in them.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "tensor/tensor_view.h"

namespace tandem::train {

template <typename T>
using Rows = RowsView<T>;
template <typename T>
using ConstRows = RowsView<const T>;

// One sequence of a packed batch: rows [first_row, first_row + rows). It starts at its first token,
// so states and convolution windows are zero before it.
struct PackedSequence {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
};

template <typename T>
T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

}  // namespace tandem::train
