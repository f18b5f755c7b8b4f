// The two matrix products that every operator is made of, on one thread.
//
// Both have one order of sums per output element, fixed by the reduction length: register tiles,
// row counts and places in a matrix do not enter. Nothing is read past the last element of a
// matrix.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace tandem::cpu {

// y[t][n] = sum_k w[n][k] x[t][k] for n in [first, last); other columns of y are left alone.
// Weights in rows: one vector accumulator over k, then its lanes (sum_lanes_of_four). In tiles, of
// kBF16: ascending k; `first` is a multiple of kTileOutputs, and so is `last` unless it is the end.
// w: kBF16, kF32 or kMxfp4, widened exactly. x [T, inputs], y [T, outputs].
void multiply_rows(const WeightMatrix& w, ConstActivations x, std::int64_t first, std::int64_t last,
                   Activations y) noexcept;

// y[t][c] += sum_j a[t][j] w[j][c], ascending j, one fused multiply-add a term, for the columns of
// y: the first ones of w, of which there may be more. a [T, w.outputs], w [outputs, inputs] of
// kBF16, kF32 or kMxfp4, y [T, <= inputs].
void add_weighted_rows(const WeightMatrix& w, ConstActivations a, Activations y) noexcept;

// Rows [first, first + count) of a weight; in tiles, `first` is a multiple of kTileOutputs.
WeightMatrix weight_rows(const WeightMatrix& w, std::int64_t first, std::int64_t count);

// Rows [first, first + count) of activations.
template <class View>
View rows_of(View view, std::int64_t first, std::int64_t count) {
  view.data = view.row(first);
  view.rows = count;
  return view;
}

// Estimated time of multiply_rows for `tokens` rows of x and one row of w, to choose grains by.
double multiply_row_ns(const WeightMatrix& w, std::int64_t tokens);

}  // namespace tandem::cpu
