#include "model/weights.h"

#include <gtest/gtest.h>

#include "model/config.h"

namespace tandem {
namespace {

const std::filesystem::path kData = std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data";

Result<ModelWeights> load(const std::filesystem::path& folder) {
  const ModelSpec spec = TRY(read_config(folder));
  return load_weights(spec, TRY(Checkpoint::open(folder)));
}

class ShippedCheckpoint : public testing::TestWithParam<const char*> {};

TEST_P(ShippedCheckpoint, loads_and_every_tensor_is_read) {
  const auto weights = load(std::filesystem::path(TANDEM_SOURCE_DIR) / GetParam());
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_GT(weights->checkpoint.total_bytes(), 1'000'000);
}

INSTANTIATE_TEST_SUITE_P(all, ShippedCheckpoint,
                         testing::Values("models/demo", "tests/data/golden/k3_tiny",
                                         "tests/data/golden/kimi_linear_tiny"));

}  // namespace
}  // namespace tandem
