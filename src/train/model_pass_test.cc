// The assembled backward of both families: against central differences in fp64, fp32 against fp64,
// and the trainer's log-probs against the engine's forward pass.
#include "train/model_pass.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sample/sampler.h"
#include "support/model_runner.h"
#include "train/adapter.h"
#include "train/ops/gradient_check.h"

namespace tandem::train {
namespace {

constexpr double kFp64Bound = 1e-6;
// The bound for the assembled model with fp32 activations.
constexpr double kFp32Bound = 1e-3;

const char* const kFamilies[] = {"k3_tiny", "kimi_linear_tiny"};

std::vector<TokenId> random_tokens(std::uint64_t seed, std::size_t count) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(500 * philox_uniform(seed, i)));
  }
  return tokens;
}

PackedBatch small_batch() {
  PackedBatch batch;
  batch.add(random_tokens(1, 9), 3);
  batch.add(random_tokens(2, 2), 1);
  batch.add(random_tokens(3, 21), 1);
  return batch;
}

std::vector<TokenScoreGradient> random_gradients(std::size_t count) {
  RandomNumbers random(5);
  std::vector<TokenScoreGradient> gradients;
  for (std::size_t i = 0; i < count; ++i) gradients.push_back({random.next(), 0.3 * random.next()});
  return gradients;
}

double weighted(const std::vector<TokenScore>& scores,
                const std::vector<TokenScoreGradient>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    sum += weights[i].log_prob * scores[i].log_prob + weights[i].entropy * scores[i].entropy;
  }
  return sum;
}

class ModelPassTest : public testing::TestWithParam<const char*> {
 protected:
  ModelPassTest()
      : model(load_model(std::string("tests/data/golden/") + GetParam(), Precision::kExact)) {}

  // Every projection adapted, B not zero.
  template <typename T>
  LoraAdapter<T> trained_adapter() const {
    auto adapter =
        LoraAdapter<T>::create(model->spec(), model->weights(),
                               {.rank = 3, .alpha = 6, .targets = {"all-linear", "lm_head"}}, 42);
    if (!adapter) throw std::runtime_error(adapter.error().message);
    for (const LoraModule& module : adapter->modules()) {
      RandomNumbers random(static_cast<std::uint64_t>(module.b_offset));
      const Rows<T> b = adapter->b(module);
      for (std::int64_t i = 0; i < b.rows * b.columns; ++i) {
        b.data[i] = static_cast<T>(static_cast<float>(0.03 * random.next()));
      }
    }
    return *std::move(adapter);
  }

  template <typename T>
  ModelPass<T> pass(const TrainedWeights<T>& trained, ThreadTeam& threads) const {
    return {model->spec(), model->weights(), trained, cpu_kernels(), Precision::kExact, threads};
  }

  // The last part of a path with, for experts, the number left out: all projections of one kind.
  static std::string kind_of(const LoraModule& module) {
    return module.path().substr(module.path().rfind('.') + 1) +
           (module.path().find("shared") != std::string::npos ? " shared" : "");
  }
  static std::string layer_of(const LoraModule& module) {
    const auto at = module.path().find("layers.");
    return at == std::string::npos ? "head" : "layer " + module.path().substr(at + 7, 1);
  }

  std::unique_ptr<Model> model;
  ThreadTeam team{2};
};

TEST_P(ModelPassTest, lora_gradients_against_differences_in_fp64) {
  auto adapter = trained_adapter<double>();
  TrainedWeights<double> trained;
  adapter.attach_to(trained);
  auto double_pass = pass(trained, team);
  const PackedBatch batch = small_batch();
  const auto weights = random_gradients(batch.scored.size());
  double_pass.forward(batch, 0.8f);
  double_pass.backward(weights);
  const std::vector<double> gradient = adapter.gradients();
  const std::vector<double> kept = adapter.values();

  // One direction for A and one for B of every kind of projection, and one for every layer.
  std::map<std::string, std::vector<double>> directions;
  RandomNumbers random(23);
  const auto add_direction = [&](const std::string& name, std::int64_t offset, std::int64_t count) {
    auto& direction = directions[name];
    direction.resize(kept.size());
    for (std::int64_t i = offset; i < offset + count; ++i) {
      direction[static_cast<std::size_t>(i)] = random.next();
    }
  };
  for (const LoraModule& m : adapter.modules()) {
    add_direction(kind_of(m) + " A", m.a_offset, 3 * m.inputs());
    add_direction(kind_of(m) + " B", m.b_offset, 3 * m.outputs());
    add_direction(layer_of(m), m.a_offset, 3 * (m.inputs() + m.outputs()));
  }
  EXPECT_GE(directions.size(), 40u);
  for (const auto& [name, direction] : directions) {
    const auto loss_at = [&](double step) {
      for (std::size_t i = 0; i < kept.size(); ++i) {
        adapter.mutable_values()[i] = kept[i] + step * direction[i];
      }
      return weighted(double_pass.forward(batch, 0.8f), weights);
    };
    // Small enough that no router changes its mind, with fp64's digits to spare.
    const double h = 2e-7;
    const double numeric = (loss_at(h) - loss_at(-h)) / (2 * h);
    // A random direction can be nearly at right angles to the gradient, so the error is measured by
    // the gradient's own length where the direction is not zero.
    double analytic = 0, squares = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      analytic += gradient[i] * direction[i];
      if (direction[i] != 0) squares += gradient[i] * gradient[i];
    }
    EXPECT_LE(std::fabs(analytic - numeric), kFp64Bound * std::sqrt(squares))
        << name << ": " << analytic << " " << numeric;
  }
}

TEST_P(ModelPassTest, fp32_lora_gradients_are_those_of_fp64) {
  auto wide = trained_adapter<double>();
  auto narrow = trained_adapter<float>();
  TrainedWeights<double> wide_trained;
  TrainedWeights<float> narrow_trained;
  wide.attach_to(wide_trained);
  narrow.attach_to(narrow_trained);
  const PackedBatch batch = small_batch();
  const auto weights = random_gradients(batch.scored.size());
  auto wide_pass = pass(wide_trained, team);
  auto narrow_pass = pass(narrow_trained, team);
  const auto wide_scores = wide_pass.forward(batch, 1);
  const auto narrow_scores = narrow_pass.forward(batch, 1);
  // Random weights amplify fp32's rounding: in either order of sums single log-probs move by 1e-4.
  for (std::size_t i = 0; i < wide_scores.size(); ++i) {
    EXPECT_NEAR(narrow_scores[i].log_prob, wide_scores[i].log_prob, 3e-4);
    EXPECT_NEAR(narrow_scores[i].entropy, wide_scores[i].entropy, 3e-4);
  }
  wide_pass.backward(weights);
  narrow_pass.backward(weights);
  EXPECT_LE(relative_error(narrow.gradients(), wide.gradients()), kFp32Bound);
  for (const LoraModule& m : wide.modules()) {
    const auto part = [&](const auto& values) {
      const auto first = values.begin() + m.a_offset;
      return std::vector(first, first + 3 * (m.inputs() + m.outputs()));
    };
    const auto expected = part(wide.gradients());
    // An expert that no token chose has no gradient.
    if (std::all_of(expected.begin(), expected.end(), [](double g) { return g == 0; })) continue;
    EXPECT_LE(relative_error(part(narrow.gradients()), expected), kFp32Bound) << m.path();
  }
}

// The log-prob of a token, from the engine's forward pass fed token by token, and from the
// trainer's pass over a packed batch: two call sites, one value.
TEST_P(ModelPassTest, log_probs_are_the_engines_bit_for_bit) {
  const auto tokens = random_tokens(3, 21);
  TestSequence sequence(*model, 16);
  const Matrix logits =
      run_chunks(*model, team, sequence, std::span(tokens).first(20), {7, 1, 1, 1, 10});
  const PackedBatch batch = small_batch();  // `tokens` is its third sequence
  const TrainedWeights<float> nothing;
  auto float_pass = pass(nothing, team);
  const auto scores = float_pass.forward(batch, 1);
  ASSERT_EQ(scores.size(), 6u + 1u + 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    const auto row = std::span(logits.row(static_cast<std::int64_t>(i)),
                               static_cast<std::size_t>(logits.columns));
    EXPECT_EQ(static_cast<float>(scores[7 + i].log_prob), log_prob(row, tokens[i + 1])) << i;
  }
}

// The same in default precision, where windows and latent rows are bf16 and the delta rule runs in
// chunks: equal to a forward pass over the whole sequence.
TEST_P(ModelPassTest, default_precision_is_the_engines_too) {
  const auto fast = load_model(std::string("tests/data/golden/") + GetParam(), Precision::kDefault);
  const auto tokens = random_tokens(3, 21);
  TestSequence sequence(*fast, 16);
  const Matrix logits = run_chunks(*fast, team, sequence, std::span(tokens).first(20), {20});
  const TrainedWeights<float> nothing;
  ModelPass<float> float_pass(fast->spec(), fast->weights(), nothing, cpu_kernels(),
                              Precision::kDefault, team);
  const PackedBatch batch = small_batch();
  const auto scores = float_pass.forward(batch, 1);
  for (std::size_t i = 0; i < 20; ++i) {
    const auto row = std::span(logits.row(static_cast<std::int64_t>(i)),
                               static_cast<std::size_t>(logits.columns));
    EXPECT_EQ(static_cast<float>(scores[7 + i].log_prob), log_prob(row, tokens[i + 1])) << i;
  }
}

// Default precision rounds the experts' activations; its gradients are those of fp64 in the main,
// also where weights stand in tiles.
TEST_P(ModelPassTest, gradients_of_default_precision_point_the_same_way) {
  const auto fast = load_model(std::string("tests/data/golden/") + GetParam(), Precision::kDefault);
  const LoraConfig config{.rank = 3, .alpha = 6, .targets = {"all-linear"}};
  auto exact = LoraAdapter<double>::create(model->spec(), model->weights(), config, 42).value();
  auto rounded = LoraAdapter<float>::create(fast->spec(), fast->weights(), config, 42).value();
  TrainedWeights<double> exact_trained;
  TrainedWeights<float> rounded_trained;
  exact.attach_to(exact_trained);
  rounded.attach_to(rounded_trained);
  auto exact_pass = pass(exact_trained, team);
  ModelPass<float> rounded_pass(fast->spec(), fast->weights(), rounded_trained, cpu_kernels(),
                                Precision::kDefault, team);
  const PackedBatch batch = small_batch();
  const auto weights = random_gradients(batch.scored.size());
  exact_pass.forward(batch, 1);
  exact_pass.backward(weights);
  PackedBatch same_experts = batch;
  same_experts.routes = exact_pass.routes();  // a near tie would send a token elsewhere
  rounded_pass.forward(same_experts, 1);
  rounded_pass.backward(weights);
  double product = 0, a = 0, b = 0;
  for (std::size_t i = 0; i < exact.gradients().size(); ++i) {
    product += exact.gradients()[i] * rounded.gradients()[i];
    a += exact.gradients()[i] * exact.gradients()[i];
    b += static_cast<double>(rounded.gradients()[i]) * rounded.gradients()[i];
  }
  // Random weights amplify the rounding of activations to bf16 and bytes.
  EXPECT_GE(product / std::sqrt(a * b), 0.95);
}

// rl.md, I-9 and I-11: with B = 0 nothing changes and A has no gradient, B has one.
TEST_P(ModelPassTest, a_new_adapter_changes_no_bit_and_only_b_has_a_gradient) {
  auto adapter = LoraAdapter<float>::create(model->spec(), model->weights(),
                                            {.rank = 4, .alpha = 8, .targets = {"all-linear"}}, 1);
  ASSERT_TRUE(adapter) << adapter.error().message;
  TrainedWeights<float> trained;
  adapter->attach_to(trained);
  const TrainedWeights<float> nothing;
  auto adapted = pass(trained, team);
  auto plain = pass(nothing, team);
  const PackedBatch batch = small_batch();
  const auto adapted_scores = adapted.forward(batch, 1);
  const auto plain_scores = plain.forward(batch, 1);
  for (std::size_t i = 0; i < plain_scores.size(); ++i) {
    EXPECT_EQ(adapted_scores[i].log_prob, plain_scores[i].log_prob) << i;
  }
  adapted.backward(random_gradients(batch.scored.size()));
  std::set<std::string> silent;
  for (const LoraModule& m : adapter->modules()) {
    for (std::int64_t i = 0; i < 4 * m.inputs(); ++i) {
      ASSERT_EQ(adapter->gradients()[static_cast<std::size_t>(m.a_offset + i)], 0) << m.path();
    }
    bool moves = false;
    for (std::int64_t i = 0; i < 4 * m.outputs(); ++i) {
      moves = moves || adapter->gradients()[static_cast<std::size_t>(m.b_offset + i)] != 0;
    }
    if (!moves && m.path().find("experts.") == std::string::npos) silent.insert(m.path());
  }
  EXPECT_TRUE(silent.empty()) << *silent.begin();
}

// rl.md, I-6 and I-13: packing and splitting into micro-batches change no bit.
TEST_P(ModelPassTest, packed_gradients_are_those_of_each_sequence_bit_for_bit) {
  auto together = trained_adapter<float>();
  auto apart = trained_adapter<float>();
  TrainedWeights<float> together_trained, apart_trained;
  together.attach_to(together_trained);
  apart.attach_to(apart_trained);
  const PackedBatch batch = small_batch();
  const auto weights = random_gradients(batch.scored.size());
  auto together_pass = pass(together_trained, team);
  const auto scores = together_pass.forward(batch, 1);
  together_pass.backward(weights);

  ThreadTeam one(1);
  auto apart_pass = pass(apart_trained, one);
  std::size_t first = 0;
  const std::pair<std::vector<TokenId>, std::int64_t> parts[] = {
      {random_tokens(1, 9), 3}, {random_tokens(2, 2), 1}, {random_tokens(3, 21), 1}};
  for (const auto& [tokens, first_scored] : parts) {
    PackedBatch alone;
    alone.add(tokens, first_scored);
    const auto alone_scores = apart_pass.forward(alone, 1);
    for (std::size_t i = 0; i < alone_scores.size(); ++i) {
      EXPECT_EQ(alone_scores[i].log_prob, scores[first + i].log_prob);
    }
    apart_pass.backward(std::span(weights).subspan(first, alone_scores.size()));
    first += alone_scores.size();
  }
  EXPECT_EQ(together.gradients(), apart.gradients());
}

// rl.md, I-18: replaying the router's own choice changes no bit of scores and gradients.
TEST_P(ModelPassTest, replaying_the_own_routes_changes_no_bit) {
  auto plain = trained_adapter<float>();
  auto replaying = trained_adapter<float>();
  TrainedWeights<float> plain_trained, replaying_trained;
  plain.attach_to(plain_trained);
  replaying.attach_to(replaying_trained);
  PackedBatch batch = small_batch();
  const auto weights = random_gradients(batch.scored.size());
  auto plain_pass = pass(plain_trained, team);
  const auto scores = plain_pass.forward(batch, 1);
  plain_pass.backward(weights);
  PackedBatch recorded = batch;
  recorded.routes = plain_pass.routes();
  auto replaying_pass = pass(replaying_trained, team);
  const auto replayed = replaying_pass.forward(recorded, 1);
  replaying_pass.backward(weights);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(replayed[i].log_prob, scores[i].log_prob);
  }
  EXPECT_EQ(replaying.gradients(), plain.gradients());
}

// Experts that the router would not choose again are used where they are recorded, and gradients
// reach the router's weights of exactly these.
TEST_P(ModelPassTest, foreign_routes_are_followed_and_differentiated) {
  auto adapter = trained_adapter<double>();
  TrainedWeights<double> trained;
  adapter.attach_to(trained);
  auto double_pass = pass(trained, team);
  PackedBatch batch = small_batch();
  const auto weights = random_gradients(batch.scored.size());
  const double own = weighted(double_pass.forward(batch, 1), weights);
  batch.routes = double_pass.routes();
  for (std::size_t l = 0; l < batch.routes.size(); ++l) {
    const auto* moe = std::get_if<MoeSpec>(&model->spec().layers[l].ffn);
    if (moe == nullptr) continue;
    const auto top_k = static_cast<std::size_t>(moe->top_k);
    for (std::size_t i = 0; i < batch.routes[l].size(); ++i) {
      // Every third row has no record, the others the next experts in turn.
      const bool recorded = i / top_k % 3 != 0;
      std::int32_t& id = batch.routes[l][i];
      id = recorded ? (id + 1) % static_cast<std::int32_t>(moe->experts) : kNoRoute;
    }
  }
  const double foreign = weighted(double_pass.forward(batch, 1), weights);
  EXPECT_GT(std::fabs(foreign - own), 1e-3);
  double_pass.backward(weights);
  const std::vector<double> kept = adapter.values();
  RandomNumbers random(29);
  const std::vector<double> direction =
      random.vector<double>(static_cast<std::int64_t>(kept.size()), 1);
  const auto loss_at = [&](double step) {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      adapter.mutable_values()[i] = kept[i] + step * direction[i];
    }
    return weighted(double_pass.forward(batch, 1), weights);
  };
  const double h = 2e-8;
  const double numeric = (loss_at(h) - loss_at(-h)) / (2 * h);
  double analytic = 0, squares = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    analytic += adapter.gradients()[i] * direction[i];
    squares += adapter.gradients()[i] * adapter.gradients()[i];
  }
  EXPECT_LE(std::fabs(analytic - numeric), 1e-5 * std::sqrt(squares));
  const std::size_t moe_layers = static_cast<std::size_t>(std::count_if(
      batch.routes.begin(), batch.routes.end(), [](const auto& r) { return !r.empty(); }));
  EXPECT_EQ(moe_layers, model->spec().layers.size() - 1) << "all but the dense first layer";
}

INSTANTIATE_TEST_SUITE_P(Families, ModelPassTest, testing::ValuesIn(kFamilies),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tandem::train
