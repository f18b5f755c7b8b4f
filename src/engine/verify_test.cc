#include "engine/verify.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using Prompts = std::vector<std::vector<TokenId>>;

class VerifyTest : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<const Model> load(Precision precision) {
    auto model =
        Model::load(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/golden" / GetParam(),
                    precision, cpu_kernels());
    EXPECT_TRUE(model) << model.error().message;
    return *std::move(model);
  }
  VerifyReport run(const std::shared_ptr<const Model>& model, const VerifyOptions& options) {
    const Prompts prompts = random_prompts(model->spec(), 5, 90, 7);
    auto report = verify(model, prompts, options, clock_);
    EXPECT_TRUE(report) << report.error().message;
    return *std::move(report);
  }
  SystemClock clock_;
};

// Adds a little to one number of every state that the cache holds.
void poison_states(EngineInternals inside) {
  for (const PrefixNodeView& node : inside.cache.dump()) {
    if (!node.state) continue;
    auto* value = reinterpret_cast<float*>(inside.bytes.data() + inside.arena.offset(*node.state));
    value[17] += 1.0f;
  }
}

TEST_P(VerifyTest, passes_bit_equal_in_exact_precision) {
  const auto model = load(Precision::kExact);
  VerifyOptions options;
  options.answer_tokens = 5;
  options.chunks = {16, 0};
  const VerifyReport report = run(model, options);
  EXPECT_TRUE(report.passed()) << to_text(report);
  ASSERT_EQ(report.cells.size(), 12u);
  for (const VerifyCell& cell : report.cells) {
    EXPECT_EQ(cell.bit_equal, cell.prompts);
    EXPECT_EQ(cell.cache == CacheState::kCold, cell.cached_tokens == 0);
  }
}

TEST_P(VerifyTest, a_poisoned_state_fails_it) {
  const auto model = load(Precision::kExact);
  VerifyOptions options;
  options.answer_tokens = 3;
  options.chunks = {0};
  options.sabotage = poison_states;
  const VerifyReport report = run(model, options);
  EXPECT_FALSE(report.passed());
  EXPECT_NE(report.failure.find("not bit-equal"), std::string::npos) << report.failure;
  EXPECT_NE(to_text(report).find("FAILED: warm cache"), std::string::npos) << to_text(report);
}

TEST_P(VerifyTest, a_cache_that_is_never_read_fails_it) {
  const auto model = load(Precision::kExact);
  VerifyOptions options;
  options.answer_tokens = 2;
  options.chunks = {0};
  options.sabotage = [](EngineInternals inside) {
    while (inside.cache.evict_one()) {
    }
  };
  EXPECT_NE(run(model, options).failure.find("nothing was read from the cache"), std::string::npos);
}

TEST_P(VerifyTest, prompts_too_short_for_the_cache_are_bad_input_and_not_a_failure) {
  const auto model = load(Precision::kExact);
  VerifyOptions options;
  options.page_tokens = 16;
  const auto report = verify(model, random_prompts(model->spec(), 2, 16, 7), options, clock_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, StatusCode::kInvalidArgument);
  EXPECT_NE(report.error().message.find("has 16 tokens"), std::string::npos)
      << report.error().message;
}

INSTANTIATE_TEST_SUITE_P(models, VerifyTest, testing::Values("k3_tiny", "kimi_linear_tiny"),
                         [](const auto& with) { return std::string(with.param); });

}  // namespace
}  // namespace tandem
