#include "tensor/weight_tiles.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tensor/huge_buffer.h"
#include "tensor/mxfp4.h"

namespace tandem {
namespace {

struct Stored {
  std::vector<std::uint8_t> data, scale;
  WeightMatrix view;
};

Stored random_weight(std::mt19937& random, DType dtype, std::int64_t outputs, std::int64_t inputs) {
  Stored stored;
  const std::int64_t bytes = dtype == DType::kMxfp4 ? outputs * inputs / 2 : outputs * inputs * 2;
  for (std::int64_t i = 0; i < bytes; ++i) {
    // No exponents of NaN, which would not be equal to themselves.
    stored.data.push_back(
        static_cast<std::uint8_t>(random() & (dtype == DType::kMxfp4 ? 255 : 63)));
  }
  if (dtype == DType::kMxfp4) {
    for (std::int64_t i = 0; i < outputs * inputs / kMxfp4GroupSize; ++i) {
      stored.scale.push_back(static_cast<std::uint8_t>(random() % 255));
    }
  }
  stored.view = {dtype, stored.data.data(), stored.scale.data(), outputs, inputs};
  return stored;
}

TEST(WeightTilesTest, tiles_hold_the_same_elements) {
  std::mt19937 random(std::random_device{}());
  for (const DType dtype : {DType::kBF16, DType::kMxfp4}) {
    for (const std::int64_t outputs : {1, 8, 15, 16, 17, 48, 100}) {
      for (const std::int64_t inputs : {32, 64, 96, 33, 1}) {
        if (dtype == DType::kMxfp4 && inputs % kMxfp4GroupSize != 0) continue;
        const Stored stored = random_weight(random, dtype, outputs, inputs);
        const TiledBytes bytes = tiled_bytes(stored.view);
        std::vector<std::byte> data(static_cast<std::size_t>(bytes.data), std::byte{0xff});
        std::vector<std::uint8_t> scale(static_cast<std::size_t>(bytes.scale), 0xff);
        const WeightMatrix tiled = tile_weight(stored.view, data.data(), scale.data());
        EXPECT_FALSE(can_tile(tiled));
        std::vector<float> expected(static_cast<std::size_t>(inputs)), actual = expected;
        for (std::int64_t o = 0; o < outputs; ++o) {
          widen_row(stored.view, o, expected.data());
          widen_row(tiled, o, actual.data());
          ASSERT_EQ(actual, expected)
              << to_string(dtype) << ' ' << outputs << 'x' << inputs << " output " << o;
        }
      }
    }
  }
}

// Kernels compute the missing outputs of a last tile, too: they must find numbers there.
TEST(WeightTilesTest, what_fills_a_tile_up_is_zero) {
  std::mt19937 random(1);
  for (const DType dtype : {DType::kBF16, DType::kMxfp4}) {
    const Stored stored = random_weight(random, dtype, 3, 32);
    const TiledBytes bytes = tiled_bytes(stored.view);
    std::vector<std::byte> data(static_cast<std::size_t>(bytes.data), std::byte{0xff});
    std::vector<std::uint8_t> scale(static_cast<std::size_t>(bytes.scale), 0xff);
    WeightMatrix tiled = tile_weight(stored.view, data.data(), scale.data());
    tiled.outputs = kTileOutputs;
    std::vector<float> row(32);
    for (std::int64_t o = 3; o < kTileOutputs; ++o) {
      widen_row(tiled, o, row.data());
      EXPECT_EQ(row, std::vector<float>(32, 0.0f)) << to_string(dtype);
    }
  }
}

TEST(HugeBufferTest, holds_what_was_asked_for_aligned_and_zeroed) {
  auto buffer = HugeBuffer::allocate(5'000'000);
  ASSERT_TRUE(buffer) << buffer.error().message;
  EXPECT_EQ(buffer->size(), 5'000'000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % (2 << 20), 0u);
  EXPECT_EQ(buffer->data()[buffer->size() - 1], std::byte{0});
  buffer->data()[buffer->size() - 1] = std::byte{1};
  HugeBuffer moved = std::move(*buffer);
  EXPECT_EQ(moved.data()[moved.size() - 1], std::byte{1});
  EXPECT_EQ(HugeBuffer::allocate(0)->size(), 0u);
}

}  // namespace
}  // namespace tandem
