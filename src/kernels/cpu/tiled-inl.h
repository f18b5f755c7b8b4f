// Products with bf16 weights in tiles (tensor/weight_tiles.h): a lane an output.
//
// Every output is one accumulator that takes its inputs in ascending order, one fused multiply-add
// each. So the order depends on nothing, the instruction set included.
#include <hwy/highway.h>

// Of every target, as highway.h.
#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/tiles-inl.h"
#include "tensor/weight_tiles.h"

#if defined(TANDEM_KERNELS_CPU_TILED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_TILED_INL_H_
#undef TANDEM_KERNELS_CPU_TILED_INL_H_
#else
#define TANDEM_KERNELS_CPU_TILED_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

// A strip is a vector's width of a tile's outputs.
inline constexpr std::int64_t kStripsInTile = kTileOutputs / kLanes;
inline constexpr std::int64_t kStripBytes = 4 * kLanes;  // of two inputs, or of a part's codes

// Where strip `strip` of a weight begins in its first tile row of 64 bytes.
HWY_INLINE const std::uint8_t* strip_start(const WeightMatrix& w, std::int64_t tile_size,
                                           std::int64_t strip) {
  return static_cast<const std::uint8_t*>(w.data) + strip / kStripsInTile * tile_size +
         strip % kStripsInTile * kStripBytes;
}

// Rows of x, three to a base register: x86 addresses the other two by scaling one stride.
template <int Kt>
struct RowPointers {
  HWY_INLINE RowPointers(const float* x, std::int64_t x_stride) : stride(x_stride) {
    TANDEM_UNROLL
    for (int i = 0; i < kBases; ++i) base[i] = x + 3 * i * stride;
  }
  HWY_INLINE float at(int t, int offset) const { return base[t / 3][t % 3 * stride + offset]; }
  HWY_INLINE void advance(std::int64_t by) {
    TANDEM_UNROLL
    for (int i = 0; i < kBases; ++i) base[i] += by;
  }

  static constexpr int kBases = (Kt + 2) / 3;
  const float* base[kBases];
  std::int64_t stride;
};

// Rows of x and strips of outputs whose accumulators share the registers with a strip's weights and
// one element of x.
#if TANDEM_32_REGISTERS
inline constexpr int kMaxTiledRows = 12;
#else
inline constexpr int kMaxTiledRows = 6;
#endif
// Three streams are enough to hide the latency of additions, and few enough to be read ahead of.
template <int Kt>
inline constexpr int kTiledStrips = Kt < 4 ? 3 : 2;

// With more rows the processor works too long on a tile for its own look-ahead.
inline constexpr std::int64_t kBytesAhead = 2048;

// Kt rows of x by strips [strip, strip + Ks).
template <int Kt, int Ks>
HWY_NOINLINE void tiled_tile(const WeightMatrix& w, std::int64_t strip, const float* x,
                             std::int64_t x_stride, float* y, std::int64_t y_stride) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> d32;
  const std::int64_t tile_size = tile_bytes(w).data;
  const std::uint8_t* weights[Ks];
  for (int s = 0; s < Ks; ++s) weights[s] = strip_start(w, tile_size, strip + s);
  RowPointers<Kt> rows(x, x_stride);
  Floats sum[Kt][Ks];
  clear(sum);
  const auto pair_of = [&](int s) HWY_ATTR {
    return hn::LoadU(d32, reinterpret_cast<const std::uint32_t*>(weights[s]));
  };
  const auto add = [&](const Floats(&part)[Ks], int offset) HWY_ATTR {
    TANDEM_UNROLL
    for (int t = 0; t < Kt; ++t) {
      const Floats x_part = hn::Set(d, rows.at(t, offset));
      TANDEM_UNROLL
      for (int s = 0; s < Ks; ++s) sum[t][s] = hn::MulAdd(x_part, part[s], sum[t][s]);
    }
  };
  const auto add_even = [&]() HWY_ATTR {
    Floats part[Ks];
    TANDEM_UNROLL
    for (int s = 0; s < Ks; ++s) part[s] = hn::BitCast(d, hn::ShiftLeft<16>(pair_of(s)));
    add(part, 0);
  };
  for (std::int64_t i = 0; i + 2 <= w.inputs; i += 2) {
    add_even();
    Floats part[Ks];
    TANDEM_UNROLL
    for (int s = 0; s < Ks; ++s) {
      part[s] = hn::BitCast(d, hn::And(pair_of(s), hn::Set(d32, 0xFFFF0000u)));
    }
    add(part, 1);
    rows.advance(2);
    TANDEM_UNROLL
    for (int s = 0; s < Ks; ++s) {
      if constexpr (Kt >= 4) hwy::Prefetch(weights[s] + kBytesAhead);
      weights[s] += 4 * kTileOutputs;
    }
  }
  if (w.inputs % 2 != 0) add_even();
  for (int s = 0; s < Ks; ++s) {
    const std::int64_t first = (strip + s) * kLanes;
    for (int t = 0; t < Kt; ++t) {
      store_up_to(sum[t][s], y + t * y_stride + first, w.outputs - first);
    }
  }
}

// Kt rows of x by strips [strip, last).
template <int Kt>
HWY_INLINE void tiled_rows_of_x(const WeightMatrix& w, std::int64_t strip, std::int64_t last,
                                const float* x, std::int64_t x_stride, float* y,
                                std::int64_t y_stride) {
  constexpr int kS = kTiledStrips<Kt>;
  for (; strip + kS <= last; strip += kS) {
    tiled_tile<Kt, kS>(w, strip, x, x_stride, y, y_stride);
  }
  for (; strip < last; ++strip) tiled_tile<Kt, 1>(w, strip, x, x_stride, y, y_stride);
}

// All of w by all rows of x. A few tiles of w stay in the first-level cache while the rows of x
// pass by.
HWY_INLINE void tiled_all(const WeightMatrix& w, ConstActivations x, Activations y) {
  const std::int64_t strips = (w.outputs + kLanes - 1) / kLanes;
  const std::int64_t together = x.rows <= kMaxTiledRows ? strips : 2 * kStripsInTile;
  for (std::int64_t strip = 0; strip < strips; strip += together) {
    const std::int64_t last = std::min(strip + together, strips);
    for_row_groups<kMaxTiledRows>(x.rows, [&](std::int64_t t, std::int64_t count) HWY_ATTR {
      with_constant<kMaxTiledRows>(count, [&](auto rows) HWY_ATTR {
        tiled_rows_of_x<rows.value>(w, strip, last, x.row(t), x.stride, y.row(t), y.stride);
      });
    });
  }
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
