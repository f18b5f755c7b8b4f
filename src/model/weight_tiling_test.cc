#include "model/weight_tiling.h"

#include <gtest/gtest.h>

#include "model/config.h"
#include "model/weight_table.h"
#include "support/cases.h"
#include "support/edited_checkpoint.h"
#include "tensor/weight_tiles.h"

namespace tandem {
namespace {

// Every matrix of a model by name.
class Matrices final : public WeightVisitor {
 public:
  Matrices(const ModelSpec& spec, ModelWeights& weights) { visit_weights(spec, weights, *this); }

  void matrix(const std::string& name, std::int64_t, std::int64_t, WeightMatrix& to) override {
    dense.emplace(name, &to);
  }
  void expert(const std::string& stem, std::int64_t, std::int64_t, WeightMatrix& to) override {
    experts.emplace(stem, &to);
  }
  void vector(const std::string&, std::int64_t, WeightVector&) override {}
  void head_rate(const std::string&, const KdaSpec&, WeightVector&) override {}
  void conv(const std::string&, std::int64_t, const KdaSpec&, WeightVector&) override {}
  void mix(const std::string&, std::int64_t, WeightVector&) override {}

  std::map<std::string, const WeightMatrix*> dense, experts;
};

std::vector<float> elements(const WeightMatrix& w) {
  std::vector<float> values(static_cast<std::size_t>(w.outputs * w.inputs));
  for (std::int64_t o = 0; o < w.outputs; ++o) widen_row(w, o, values.data() + o * w.inputs);
  return values;
}

bool lies_in(const WeightMatrix& w, const HugeBuffer& buffer) {
  const auto* data = static_cast<const std::byte*>(w.data);
  return data >= buffer.data() && data < buffer.data() + buffer.size();
}

class WeightTilingTest : public testing::TestWithParam<const char*> {
 protected:
  const std::filesystem::path folder_ = source_folder() / GetParam();
  const ModelSpec spec_ = read_config(folder_).value();
  ModelWeights weights_ = load_checkpoint(folder_).value();
  ModelWeights original_ = load_checkpoint(folder_).value();
};
INSTANTIATE_TEST_SUITE_P(Models, WeightTilingTest,
                         testing::Values("models/demo", "tests/data/golden/k3_tiny",
                                         "tests/data/golden/kimi_linear_tiny"));

TEST_P(WeightTilingTest, every_element_is_what_it_was_wherever_it_stands_now) {
  for (const bool tile_experts : {false, true}) {
    ModelWeights weights = load_checkpoint(folder_).value();
    const auto tiled = tile_weights(spec_, tile_experts, INT64_MAX, weights);
    ASSERT_TRUE(tiled) << tiled.error().message;
    const Matrices now(spec_, weights), before(spec_, original_);
    for (const auto& [name, matrix] : now.dense) {
      ASSERT_EQ(elements(*matrix), elements(*before.dense.at(name))) << name;
      EXPECT_EQ(lies_in(*matrix, weights.tiles), matrix != &weights.embedding) << name;
    }
    for (const auto& [name, matrix] : now.experts) {
      ASSERT_EQ(elements(*matrix), elements(*before.experts.at(name))) << name;
      EXPECT_TRUE(lies_in(*matrix, weights.tiles)) << name;
      if (matrix->dtype == DType::kMxfp4) {
        EXPECT_EQ(matrix->layout == WeightLayout::kTiles, tile_experts) << name;
      }
    }
  }
}

TEST_P(WeightTilingTest, weights_that_do_not_fit_stay_in_their_files) {
  ASSERT_TRUE(tile_weights(spec_, true, 1 << 10, weights_));
  EXPECT_EQ(weights_.tiles.size(), 0u);
  const Matrices now(spec_, weights_), before(spec_, original_);
  for (const auto& [name, matrix] : now.dense) {
    EXPECT_EQ(matrix->layout, WeightLayout::kRows) << name;
    ASSERT_EQ(elements(*matrix), elements(*before.dense.at(name))) << name;
  }
}

}  // namespace
}  // namespace tandem
