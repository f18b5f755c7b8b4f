#include "train/products_fp32.h"

#include <algorithm>

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "train/products_fp32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tandem::train::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;

constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(FloatTag()));
// Rows and vectors of a tile: their sums and one row of b stay in registers.
constexpr std::int64_t kTileRows = 6;
constexpr std::int64_t kTileVectors = 2;
// Terms taken at once, so that a tile's columns of b stay in the first-level cache.
constexpr std::int64_t kDepthBlock = 256;

// p.rows == Rows, p.columns == Vectors * kLanes
template <int Rows, int Vectors>
HWY_NOINLINE void full_tile(const ProductFp32& p) {
  const FloatTag d;
  Floats sum[Rows][Vectors];
  for (int m = 0; m < Rows; ++m) {
    for (int v = 0; v < Vectors; ++v) sum[m][v] = hn::LoadU(d, p.c + m * p.c_row + v * kLanes);
  }
  const float* a = p.a;
  const float* b = p.b;
  for (std::int64_t k = 0; k < p.depth; ++k, a += p.a_step, b += p.b_row) {
    Floats row[Vectors];
    for (int v = 0; v < Vectors; ++v) row[v] = hn::LoadU(d, b + v * kLanes);
    for (int m = 0; m < Rows; ++m) {
      const Floats factor = hn::Set(d, a[m * p.a_row]);
      for (int v = 0; v < Vectors; ++v) sum[m][v] = hn::MulAdd(factor, row[v], sum[m][v]);
    }
  }
  for (int m = 0; m < Rows; ++m) {
    for (int v = 0; v < Vectors; ++v) hn::StoreU(sum[m][v], d, p.c + m * p.c_row + v * kLanes);
  }
}

// Columns that fill no vector.
void tail_columns(const ProductFp32& p) {
  for (std::int64_t m = 0; m < p.rows; ++m) {
    for (std::int64_t k = 0; k < p.depth; ++k) {
      const float factor = p.a[m * p.a_row + k * p.a_step];
      for (std::int64_t n = 0; n < p.columns; ++n) {
        p.c[m * p.c_row + n] += factor * p.b[k * p.b_row + n];
      }
    }
  }
}

ProductFp32 part(const ProductFp32& p, std::int64_t first_row, std::int64_t rows) {
  ProductFp32 made = p;
  made.a += first_row * p.a_row;
  made.c += first_row * p.c_row;
  made.rows = rows;
  return made;
}

// A column panel of Vectors vectors down all rows.
template <int Vectors>
void panel(const ProductFp32& p) {
  std::int64_t m = 0;
  for (; m + kTileRows <= p.rows; m += kTileRows) {
    full_tile<kTileRows, Vectors>(part(p, m, kTileRows));
  }
  for (; m + 2 <= p.rows; m += 2) full_tile<2, Vectors>(part(p, m, 2));
  if (m < p.rows) full_tile<1, Vectors>(part(p, m, 1));
}

void add_product(const ProductFp32& product) {
  for (std::int64_t k = 0; k < product.depth; k += kDepthBlock) {
    ProductFp32 p = product;
    p.a += k * p.a_step;
    p.b += k * p.b_row;
    p.depth = std::min(kDepthBlock, product.depth - k);
    const auto next_columns = [&](std::int64_t count) {
      p.b += count;
      p.c += count;
      p.columns -= count;
    };
    for (; p.columns >= kTileVectors * kLanes; next_columns(kTileVectors * kLanes)) {
      panel<kTileVectors>(p);
    }
    for (; p.columns >= kLanes; next_columns(kLanes)) panel<1>(p);
    if (p.columns > 0) tail_columns(p);
  }
}

}  // namespace tandem::train::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::train {

HWY_EXPORT(add_product);

void add_product_fp32(const ProductFp32& product) noexcept {
  HWY_DYNAMIC_DISPATCH(add_product)(product);
}

}  // namespace tandem::train
#endif  // HWY_ONCE
