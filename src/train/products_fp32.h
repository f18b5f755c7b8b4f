// The fp32 product under both gradients of a linear map, for the best instruction set of this
// processor.
#pragma once

#include <cstdint>

namespace tandem::train {

// c[m][n] += sum_k a[m * a_row + k * a_step] * b[k * b_row + n] for m < rows, n < columns, k <
// depth, ascending k, one fused multiply-add a term where the processor has it. How a column is
// summed depends on its place alone, not on `rows`. One thread; c overlaps neither a nor b.
struct ProductFp32 {
  const float* a = nullptr;
  std::int64_t a_row = 0, a_step = 0;
  const float* b = nullptr;
  std::int64_t b_row = 0;
  float* c = nullptr;
  std::int64_t c_row = 0;
  std::int64_t rows = 0, columns = 0, depth = 0;
};
void add_product_fp32(const ProductFp32& product) noexcept;

}  // namespace tandem::train
