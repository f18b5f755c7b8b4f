// Gradients of every weight of both tiny models against PyTorch's autograd on the fp64 reference
// (tools/train/gradients.py). A gradient is compared by its norm and four products with fixed
// vectors.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/checkpoint.h"
#include "model/config.h"
#include "support/temp_folder.h"
#include "train/model_pass.h"
#include "train/trainable_weights.h"

namespace tandem::train {
namespace {

// Both work in fp64 on the same values, but for rates, which pass through a logarithm in fp32 here.
constexpr double kFp64Bound = 1e-6;
// The bound for the assembled model with fp32 activations.
constexpr double kFp32Bound = 1e-3;

// Norm and probes of a row-major gradient, as the script has them.
template <typename T>
std::vector<double> numbers(const T* gradient, std::int64_t size) {
  std::vector<double> made(5);
  for (std::int64_t i = 0; i < size; ++i) {
    const auto g = static_cast<double>(gradient[i]);
    made[0] += g * g;
    for (std::size_t j = 0; j < 4; ++j) {
      made[j + 1] += g * std::cos(static_cast<double>(j + 1) * static_cast<double>(i + 1));
    }
  }
  made[0] = std::sqrt(made[0]);
  return made;
}

class AutogradTest : public testing::TestWithParam<const char*> {
 protected:
  AutogradTest()
      : expected(nlohmann::json::parse(read_text(source_folder() / "tests/data/train" /
                                                 (std::string(GetParam()) + "_gradients.json")))),
        spec(read_config(folder()).value()) {}
  static std::filesystem::path folder() {
    return source_folder() / "tests/data/golden" / GetParam();
  }

  template <typename T>
  void compare(double bound) {
    TrainableWeights<T> model(spec, load_weights(spec, Checkpoint::open(folder()).value()).value());
    TrainedWeights<T> trained;
    model.want_all(trained);
    ModelPass<T> pass(spec, model.weights(), trained, cpu_kernels(), Precision::kExact, team);
    PackedBatch batch;
    for (const auto& sequence : expected.at("sequences")) {
      batch.add(sequence.get<std::vector<TokenId>>(), 1);
    }
    std::vector<TokenScoreGradient> weights;
    for (const auto& pair : expected.at("weights")) weights.push_back({pair[0], pair[1]});
    const auto scores = pass.forward(batch, 1);
    ASSERT_EQ(scores.size(), weights.size());
    double loss = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      loss += weights[i].log_prob * scores[i].log_prob + weights[i].entropy * scores[i].entropy;
    }
    EXPECT_NEAR(loss, expected.at("loss"), 10 * bound);
    pass.backward(weights);

    std::size_t compared = 0;
    for (const WeightSlot& slot : model.slots()) {
      if (slot.kind == WeightSlot::Kind::kFixed) continue;
      const std::vector<double> wanted = expected.at("gradients").at(slot.path);
      const auto got = numbers(model.gradients().data() + slot.offset, slot.rows * slot.columns);
      // A product with a vector of cosines is of the order of the norm.
      for (std::size_t j = 0; j < 5; ++j) {
        EXPECT_NEAR(got[j], wanted[j], bound * wanted[0]) << slot.path << " " << j;
      }
      ++compared;
    }
    EXPECT_EQ(compared, expected.at("gradients").size());
  }

  nlohmann::json expected;
  ModelSpec spec;
  ThreadTeam team{2};
};

TEST_P(AutogradTest, fp64) { compare<double>(kFp64Bound); }
TEST_P(AutogradTest, fp32) { compare<float>(kFp32Bound); }

INSTANTIATE_TEST_SUITE_P(Families, AutogradTest, testing::Values("k3_tiny", "kimi_linear_tiny"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tandem::train
