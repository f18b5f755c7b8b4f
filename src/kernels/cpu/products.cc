#include "kernels/cpu/products.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/targets.h"
#include "tensor/mxfp4.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/products.cc"
#include <hwy/foreach_target.h>

#include "kernels/cpu/mxfp4-inl.h"
#include "kernels/cpu/tiled-inl.h"
#include "kernels/cpu/weighted-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

void multiply(const WeightMatrix& w, ConstActivations x, Activations y) {
  if (w.layout == WeightLayout::kTiles) return tiled_all(w, x, y);
  switch (w.dtype) {
    case DType::kBF16:
      return dot_all(dense_weight<BF16>(w), x, y);
    case DType::kF32:
      return dot_all(dense_weight<float>(w), x, y);
    default:
      return mxfp4_dot_all(w, x, y);
  }
}

void add_weighted(const WeightMatrix& w, ConstActivations a, Activations y) {
  switch (w.dtype) {
    case DType::kBF16:
      return weighted_all(dense_weight<BF16>(w), a, y);
    case DType::kF32:
      return weighted_all(dense_weight<float>(w), a, y);
    default:
      return for_decoded_blocks(w, [&](std::int64_t n, Dense<float> rows)
                                       HWY_ATTR { weighted_all(rows, a.slice(n, rows.rows), y); });
  }
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu {

HWY_EXPORT(multiply);
HWY_EXPORT(add_weighted);

void multiply_rows(const WeightMatrix& w, ConstActivations x, std::int64_t first, std::int64_t last,
                   Activations y) noexcept {
  const std::int64_t count = last - first;
  HWY_DYNAMIC_DISPATCH(multiply)(weight_rows(w, first, count), x, y.slice(first, count));
}

void add_weighted_rows(const WeightMatrix& w, ConstActivations a, Activations y) noexcept {
  HWY_DYNAMIC_DISPATCH(add_weighted)(w, a, y);
}

WeightMatrix weight_rows(const WeightMatrix& w, std::int64_t first, std::int64_t count) {
  WeightMatrix rows = w;
  rows.outputs = count;
  if (w.layout == WeightLayout::kTiles) {
    const TiledBytes tile = tile_bytes(w);
    rows.data = static_cast<const std::byte*>(w.data) + first / kTileOutputs * tile.data;
    if (w.scale != nullptr) rows.scale = w.scale + first / kTileOutputs * tile.scale;
    return rows;
  }
  const std::int64_t row_bytes = w.dtype == DType::kMxfp4 ? w.inputs / 2
                                 : w.dtype == DType::kF32 ? w.inputs * 4
                                                          : w.inputs * 2;
  rows.data = static_cast<const std::byte*>(w.data) + first * row_bytes;
  if (w.dtype == DType::kMxfp4) rows.scale = w.scale + first * (w.inputs / kMxfp4GroupSize);
  return rows;
}

double multiply_row_ns(const WeightMatrix& w, std::int64_t tokens) {
  const auto inputs = static_cast<double>(w.inputs);
  const double bytes = inputs * (w.dtype == DType::kMxfp4 ? 0.6 : w.dtype == DType::kF32 ? 4 : 2);
  return std::max(2 * inputs * static_cast<double>(tokens) * kNsPerFlop, bytes * kNsPerByte);
}

}  // namespace tandem::cpu
#endif  // HWY_ONCE
