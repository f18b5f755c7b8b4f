// Products of MXFP4 weights in tiles with activations of two 8-bit digits, on one thread.
//
// Codes of weights are whole numbers, so with activations that are whole numbers, too, a product is
// done with the processor's products of bytes: several times faster than decoding weights to fp32.
// One digit would be rounded to 1/254 of the largest value of 32, too coarse for the default
// precision's bounds; with two the error is 1/65,000 of it.
#pragma once

#include <cstdint>

#include "tensor/mxfp4.h"
#include "tensor/tensor_view.h"

namespace tandem::cpu {

// 32 neighbouring activations: x ~ 2 * scale * (256 * high + low).
struct QuantizedGroup {
  std::int8_t high[kMxfp4GroupSize / 4][4];  // -127..127
  std::int8_t low[kMxfp4GroupSize / 4][4];   // -128..127
  float scale;          // the largest magnitude by 2 * 256 * 127; NaN if one is infinite or NaN
  std::int32_t offset;  // -12 times the sum of the values: products count codes from -12 upwards
};

// Rows of them, [rows, columns / 32]. Borrowed memory.
struct QuantizedRows {
  QuantizedGroup* groups = nullptr;
  std::int64_t columns = 0;  // a multiple of 32

  std::int64_t row_groups() const { return columns / kMxfp4GroupSize; }
  QuantizedGroup* row(std::int64_t i) const { return groups + i * row_groups(); }
};

// Floats that `rows` rows take.
inline std::int64_t quantized_floats(std::int64_t rows, std::int64_t columns) {
  return rows * columns / kMxfp4GroupSize *
         static_cast<std::int64_t>(sizeof(QuantizedGroup) / sizeof(float));
}

// to [columns / 32] = x [columns]; each digit to nearest, ties to even.
void quantize_row(const float* x, std::int64_t columns, QuantizedGroup* to) noexcept;

// y[i][n] = sum over groups g, ascending, of
//   2^(weight scale - 127) * x scale * (sum of 2 * E2M1 value * (256 * high + low))
// for n in [first, last), first and last as in multiply_rows; other columns of y are left alone.
// Row i of y is made of row rows[i] of x, or of row i where `rows` is null. The inner sum is exact,
// rounded to fp32 once, and a group is added with one fused multiply-add, so the bits depend on the
// row and the weight alone (on an instruction set without such an addition, on that too). A weight
// scale of 2^-127 counts as zero.
void multiply_quantized(const WeightMatrix& w, const QuantizedRows& x, const std::int32_t* rows,
                        std::int64_t first, std::int64_t last, Activations y) noexcept;

// Estimated time of multiply_quantized for `rows` rows of x and one output.
double quantized_output_ns(const WeightMatrix& w, std::int64_t rows);

}  // namespace tandem::cpu
