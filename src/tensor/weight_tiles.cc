#include "tensor/weight_tiles.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/mxfp4.h"

namespace tandem {
namespace {

constexpr std::int64_t kPairBytes = kTileOutputs * 2 * 2;                 // of kBF16
constexpr std::int64_t kGroupBytes = kTileOutputs * kMxfp4GroupSize / 2;  // of kMxfp4
constexpr std::int64_t kPartBytes = 64;

std::int64_t tiles_of(const WeightMatrix& weight) {
  return (weight.outputs + kTileOutputs - 1) / kTileOutputs;
}

// Outputs [first, first + count) of a bf16 weight; `tile` is zeroed.
void fill_bf16_tile(const WeightMatrix& weight, std::int64_t first, std::int64_t count,
                    std::byte* tile) {
  const auto* rows = static_cast<const BF16*>(weight.data) + first * weight.inputs;
  for (std::int64_t r = 0; r < count; ++r) {
    const BF16* row = rows + r * weight.inputs;
    std::byte* to = tile + r * 4;
    for (std::int64_t i = 0; i + 2 <= weight.inputs; i += 2, to += kPairBytes) {
      std::memcpy(to, row + i, 4);
    }
    if (weight.inputs % 2 != 0) std::memcpy(to, row + weight.inputs - 1, 2);
  }
}

// Eight nibbles, lowest first, each in a byte of its own.
std::uint64_t spread_nibbles(std::uint32_t nibbles) {
  std::uint64_t x = nibbles;
  x = (x | x << 16) & 0x0000FFFF0000FFFF;
  x = (x | x << 8) & 0x00FF00FF00FF00FF;
  return (x | x << 4) & 0x0F0F0F0F0F0F0F0F;
}

void fill_mxfp4_tile(const WeightMatrix& weight, std::int64_t first, std::int64_t count,
                     std::byte* tile, std::uint8_t* scale) {
  const std::int64_t groups = weight.inputs / kMxfp4GroupSize;
  for (std::int64_t r = 0; r < count; ++r) {
    const auto* codes =
        static_cast<const std::uint8_t*>(weight.data) + (first + r) * (weight.inputs / 2);
    const std::uint8_t* scales = weight.scale + (first + r) * groups;
    for (std::int64_t g = 0; g < groups; ++g) {
      std::uint32_t words[4];  // of 8 codes each
      std::memcpy(words, codes + g * sizeof(words), sizeof(words));
      for (int half = 0; half < 2; ++half) {
        const std::uint64_t both = spread_nibbles(words[half]) | spread_nibbles(words[half + 2])
                                                                     << 4;
        std::byte* to = tile + g * kGroupBytes + 2 * half * kPartBytes + r * 4;
        const std::uint32_t lower = static_cast<std::uint32_t>(both);
        const std::uint32_t upper = static_cast<std::uint32_t>(both >> 32);
        std::memcpy(to, &lower, 4);
        std::memcpy(to + kPartBytes, &upper, 4);
      }
      scale[g * kTileOutputs + r] = scales[g];
    }
  }
}

void widen_bf16_lane(const WeightMatrix& w, std::int64_t output, float* values) {
  const BF16* pair = static_cast<const BF16*>(w.data) +
                     output / kTileOutputs * (tile_bytes(w).data / 2) + output % kTileOutputs * 2;
  for (std::int64_t i = 0; i < w.inputs; ++i) {
    values[i] = to_float(pair[i / 2 * (kPairBytes / 2) + i % 2]);
  }
}

void widen_mxfp4_lane(const WeightMatrix& w, std::int64_t output, float* values) {
  const TiledBytes one = tile_bytes(w);
  const std::int64_t tile = output / kTileOutputs, r = output % kTileOutputs;
  const auto* group = static_cast<const std::uint8_t*>(w.data) + tile * one.data + r * 4;
  const std::uint8_t* scale = w.scale + tile * one.scale + r;
  for (std::int64_t g = 0; g < w.inputs / kMxfp4GroupSize; ++g) {
    const float factor = e8m0_to_float(*scale);
    for (std::int64_t c = 0; c < kMxfp4GroupSize / 2; ++c, ++values) {
      const std::uint8_t byte = group[c / 4 * kPartBytes + c % 4];
      values[0] = kE2m1Values[byte & 15] * factor;
      values[kMxfp4GroupSize / 2] = kE2m1Values[byte >> 4] * factor;
    }
    values += kMxfp4GroupSize / 2;
    group += kGroupBytes;
    scale += kTileOutputs;
  }
}

}  // namespace

bool can_tile(const WeightMatrix& weight) {
  return weight.layout == WeightLayout::kRows &&
         (weight.dtype == DType::kBF16 || weight.dtype == DType::kMxfp4);
}

TiledBytes tile_bytes(const WeightMatrix& weight) {
  if (weight.dtype == DType::kBF16) return {(weight.inputs + 1) / 2 * kPairBytes, 0};
  const std::int64_t groups = weight.inputs / kMxfp4GroupSize;
  return {groups * kGroupBytes, groups * kTileOutputs};
}

TiledBytes tiled_bytes(const WeightMatrix& weight) {
  const TiledBytes one = tile_bytes(weight);
  return {tiles_of(weight) * one.data, tiles_of(weight) * one.scale};
}

WeightMatrix tile_weight(const WeightMatrix& weight, std::byte* data, std::uint8_t* scale) {
  CHECK(can_tile(weight), "a weight of dtype {} cannot be tiled", to_string(weight.dtype));
  const TiledBytes one = tile_bytes(weight);
  for (std::int64_t t = 0; t < tiles_of(weight); ++t) {
    const std::int64_t first = t * kTileOutputs;
    const std::int64_t count = std::min(kTileOutputs, weight.outputs - first);
    std::byte* tile = data + t * one.data;
    const bool whole = count == kTileOutputs && weight.inputs % 2 == 0;
    if (!whole) std::fill_n(tile, one.data, std::byte{0});
    if (weight.dtype == DType::kBF16) {
      fill_bf16_tile(weight, first, count, tile);
    } else {
      std::uint8_t* scales = scale + t * one.scale;
      if (!whole) std::fill_n(scales, one.scale, std::uint8_t{0});
      fill_mxfp4_tile(weight, first, count, tile, scales);
    }
  }
  WeightMatrix tiled = weight;
  tiled.data = data;
  tiled.scale = weight.dtype == DType::kMxfp4 ? scale : nullptr;
  tiled.layout = WeightLayout::kTiles;
  return tiled;
}

void widen_row(const WeightMatrix& weight, std::int64_t output, float* values) {
  const std::int64_t inputs = weight.inputs;
  if (weight.layout == WeightLayout::kTiles) {
    return weight.dtype == DType::kBF16 ? widen_bf16_lane(weight, output, values)
                                        : widen_mxfp4_lane(weight, output, values);
  }
  const auto size = static_cast<std::size_t>(inputs);
  if (weight.dtype == DType::kMxfp4) {
    const auto* packed = static_cast<const std::uint8_t*>(weight.data) + output * (inputs / 2);
    const auto* scale = weight.scale + output * (inputs / kMxfp4GroupSize);
    mxfp4_decode({packed, size / 2}, {scale, size / kMxfp4GroupSize}, {values, size});
  } else if (weight.dtype == DType::kBF16) {
    const auto* row = static_cast<const BF16*>(weight.data) + output * inputs;
    for (std::int64_t i = 0; i < inputs; ++i) values[i] = to_float(row[i]);
  } else {
    CHECK(weight.dtype == DType::kF32, "{} is no dtype of a weight", to_string(weight.dtype));
    std::memcpy(values, static_cast<const float*>(weight.data) + output * inputs,
                size * sizeof(float));
  }
}

}  // namespace tandem
