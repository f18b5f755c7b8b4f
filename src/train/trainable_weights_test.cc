// Gradients of every weight of a small model, and its checkpoint.
#include "train/trainable_weights.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "model/checkpoint.h"
#include "model/config.h"
#include "model/model.h"
#include "support/temp_folder.h"
#include "train/model_pass.h"
#include "train/ops/gradient_check.h"
#include "train/weight_walk.h"

namespace tandem::train {
namespace {

constexpr double kBound = 1e-5;  // steps are fp32's, see below
constexpr std::size_t kElements = 16;

std::filesystem::path golden(const std::string& name) {
  return source_folder() / "tests/data/golden" / name;
}

class TrainableWeightsTest : public testing::TestWithParam<const char*> {
 protected:
  TrainableWeightsTest() : spec(read_config(golden(GetParam())).value()) {}
  ModelWeights load() const {
    return load_weights(spec, Checkpoint::open(golden(GetParam())).value()).value();
  }
  static PackedBatch batch() {
    PackedBatch made;
    std::vector<TokenId> tokens;
    for (std::uint64_t i = 0; i < 10; ++i) {
      tokens.push_back(static_cast<TokenId>(500 * philox_uniform(7, i)));
    }
    made.add(std::span(tokens).first(4), 2);
    made.add(tokens, 1);
    return made;
  }
  ModelSpec spec;
  ThreadTeam team{2};
};

// The last two parts of a path, with the number of a layer or an expert left out.
std::string kind_of(const std::string& path) {
  const std::size_t last = path.rfind('.');
  const std::size_t before = last == 0 ? 0 : path.rfind('.', last - 1);
  const std::string parent = path.substr(before + 1, last - before - 1);
  const bool number = parent.find_first_not_of("0123456789") == std::string::npos;
  return (number ? "" : parent + ".") + path.substr(last + 1);
}

// Some elements of each kind of weight move together by what fp32 makes of a small step; the loss
// is computed in fp64.
TEST_P(TrainableWeightsTest, every_gradient_against_differences) {
  TrainableWeights<double> model(spec, load());
  TrainedWeights<double> trained;
  model.want_all(trained);
  ModelPass<double> pass(spec, model.weights(), trained, reference_kernels(), Precision::kExact,
                         team);
  const PackedBatch tokens = batch();
  RandomNumbers random(3);
  std::vector<TokenScoreGradient> wanted;
  for (std::size_t i = 0; i < tokens.scored.size(); ++i) {
    wanted.push_back({random.next(), 0.2 * random.next()});
  }
  const auto loss = [&] {
    model.refresh();
    const auto scores = pass.forward(tokens, 1);
    double sum = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      sum += wanted[i].log_prob * scores[i].log_prob + wanted[i].entropy * scores[i].entropy;
    }
    return sum;
  };
  loss();
  pass.backward(wanted);

  // Elements with a gradient, by kind.
  std::map<std::string, std::set<std::size_t>> chosen;
  for (const WeightSlot& slot : model.slots()) {
    auto& elements = chosen[kind_of(slot.path)];
    for (int tries = 0; tries < 4000 && elements.size() < kElements; ++tries) {
      const auto i = static_cast<std::size_t>(static_cast<double>(slot.offset) +
                                              static_cast<double>(slot.rows * slot.columns) *
                                                  (random.next() + 6) / 12);
      if (i < model.values().size() && model.gradients()[i] != 0) elements.insert(i);
    }
  }
  EXPECT_TRUE(chosen["gate.e_score_correction_bias"].empty());
  chosen.erase("gate.e_score_correction_bias");
  EXPECT_GE(chosen.size(), 24u);
  for (const auto& [kind, distinct] : chosen) {
    ASSERT_FALSE(distinct.empty()) << kind;
    const std::vector<std::size_t> elements(distinct.begin(), distinct.end());
    // The model reads the exponential of A_log in fp32, so a step there has to be a long one.
    const bool rounded = kind.ends_with("A_log");
    const float step = rounded ? 0x1p-10f : 0x1p-17f;
    const double bound = rounded ? 1e-3 : kBound;
    const std::vector<float> kept = model.values();
    std::vector<float> directions;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      directions.push_back(random.next() > 0 ? step : -step);
    }
    const auto moved_loss = [&](float sign) {
      for (std::size_t i = 0; i < elements.size(); ++i) {
        model.mutable_values()[elements[i]] = kept[elements[i]] + sign * directions[i];
      }
      return loss();
    };
    double analytic = 0, squares = 0;
    const double above = moved_loss(1);
    for (const std::size_t i : elements) analytic += model.gradients()[i] * model.values()[i];
    const double below = moved_loss(-1);
    for (const std::size_t i : elements) {
      analytic -= model.gradients()[i] * model.values()[i];
      squares += model.gradients()[i] * model.gradients()[i];
    }
    std::copy(kept.begin(), kept.end(), model.mutable_values().begin());
    EXPECT_LE(std::fabs(analytic - (above - below)), bound * 2 * step * std::sqrt(squares))
        << kind << ": " << analytic << " " << above - below;
  }
  loss();
}

TEST_P(TrainableWeightsTest, a_saved_checkpoint_is_the_model) {
  TrainableWeights<float> model(spec, load());
  RandomNumbers random(3);
  for (float& value : model.mutable_values()) value *= static_cast<float>(1 + 0.01 * random.next());
  model.refresh();
  TempFolder folder;
  const std::string config = read_text(golden(GetParam()) / "config.json");
  const auto saved = save_checkpoint(spec, model, config, folder.path(), ExpertStorage::kF32);
  ASSERT_TRUE(saved) << saved.error().message;
  auto opened = load_weights(spec, Checkpoint::open(folder.path()).value());
  ASSERT_TRUE(opened) << opened.error().message;
  TrainableWeights<float> again(spec, *std::move(opened));
  ASSERT_EQ(again.values().size(), model.values().size());
  for (const WeightSlot& slot : model.slots()) {
    for (std::int64_t i = slot.offset; i < slot.offset + slot.rows * slot.columns; ++i) {
      const auto at = static_cast<std::size_t>(i);
      // Rates are kept as logarithms in the file and as themselves in memory.
      const float bound = slot.kind == WeightSlot::Kind::kLogVector ? 1e-6f : 0;
      ASSERT_NEAR(again.values()[at], model.values()[at], bound) << slot.path;
    }
  }
  walk_weights(
      spec, again.weights(), [](const std::string&, const WeightMatrix&) {},
      [&](const std::string& path, const WeightVector& vector) {
        for (std::size_t i = 0; i < vector.size(); ++i)
          ASSERT_TRUE(std::isfinite(vector[i])) << path;
      });
}

// Packed, the model is the one that MXFP4 can hold: packing that again changes nothing.
TEST_P(TrainableWeightsTest, packed_experts_are_the_nearest_values_and_stay) {
  TrainableWeights<float> model(spec, load());
  const std::string config = read_text(golden(GetParam()) / "config.json");
  const auto round_trip = [&](const TrainableWeights<float>& from) {
    TempFolder folder;
    const auto saved = save_checkpoint(spec, from, config, folder.path(), ExpertStorage::kMxfp4);
    EXPECT_TRUE(saved) << saved.error().message;
    return TrainableWeights<float>(
        spec, load_weights(spec, Checkpoint::open(folder.path()).value()).value());
  };
  const auto once = round_trip(model);
  const auto twice = round_trip(once);
  EXPECT_EQ(once.values(), twice.values());
  EXPECT_LE(relative_error(once.values(), model.values()), 0.2);
}

INSTANTIATE_TEST_SUITE_P(Families, TrainableWeightsTest,
                         testing::Values("k3_tiny", "kimi_linear_tiny"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tandem::train
