// Weights rearranged for products: sixteen outputs side by side, so that a product reads memory in
// one ascending stream and every output has a vector lane of its own.
//
// Tile t holds outputs [16 t, 16 t + 16); a last tile that is not full is filled up with zeros.
//   kBF16:  for every pair of inputs (2j, 2j+1) 16 x 2 elements: w[o][2j], w[o][2j+1] of each
//           output o in turn. An odd number of inputs gets a column of zeros.
//   kMxfp4: for every group of 32 inputs 4 x 64 bytes; byte 4r + c of part i holds the codes of
//           output r in columns 4i + c (low nibble) and 16 + 4i + c (high nibble).
//           Scales: the 16 bytes of a group's outputs side by side, group after group.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor_view.h"

namespace tandem {

inline constexpr std::int64_t kTileOutputs = 16;

// Whether a weight can be tiled: kBF16 or kMxfp4, in rows.
bool can_tile(const WeightMatrix& weight);

// Bytes that tile_weight writes: elements, and scales (0 for kBF16). Both are multiples of 64 and
// of 16.
struct TiledBytes {
  std::int64_t data = 0;
  std::int64_t scale = 0;
};
TiledBytes tiled_bytes(const WeightMatrix& weight);
// Of one tile.
TiledBytes tile_bytes(const WeightMatrix& weight);

// Writes the tiles of `weight`, which can_tile, to `data` (aligned to 4) and `scale`, and returns
// the view of them.
WeightMatrix tile_weight(const WeightMatrix& weight, std::byte* data, std::uint8_t* scale);

// values [inputs] = row `output` of a weight in any layout, widened to fp32; kBF16, kF32 or kMxfp4.
void widen_row(const WeightMatrix& weight, std::int64_t output, float* values);

}  // namespace tandem
