// A checkpoint of random weights behaves like a model: activations of order one, routing spread
// over the experts, gates neither shut nor open.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "model/make_random.h"
#include "support/model_runner.h"
#include "support/temp_folder.h"

namespace tandem {
namespace {

// Gate values of every KDA layer, taken where the kernels have just made them.
std::vector<float> g_log_decays;
std::vector<float> g_betas;

void recording_gates(const KdaGatesArgs& args, ThreadTeam& team) noexcept {
  cpu_kernels().kda_gates(args, team);
  for (std::int64_t t = 0; t < args.decay.rows; ++t) {
    const float* decay = args.decay.row(t);
    const float* beta = args.beta.row(t);
    g_log_decays.insert(g_log_decays.end(), decay, decay + args.decay.columns);
    g_betas.insert(g_betas.end(), beta, beta + args.beta.columns);
  }
}

class Recorder final : public ForwardObserver {
 public:
  explicit Recorder(const ModelSpec& spec) : spec_(spec), chosen_(spec.layers.size()) {}

  void on_layer(std::int64_t layer, ConstActivations stream) override {
    double squares = 0;
    for (std::int64_t t = 0; t < stream.rows; ++t) {
      for (std::int64_t i = 0; i < stream.columns; ++i) {
        squares += std::pow(static_cast<double>(stream.row(t)[i]), 2);
      }
    }
    const double rms = std::sqrt(squares / static_cast<double>(stream.rows * stream.columns));
    EXPECT_GT(rms, 0.1) << "stream after layer " << layer;
    EXPECT_LT(rms, 10.0) << "stream after layer " << layer;
  }
  void on_experts(std::int64_t layer, std::span<const std::int32_t> ids) override {
    const auto l = static_cast<std::size_t>(layer);
    const auto& moe = std::get<MoeSpec>(spec_.layers[l].ffn);
    chosen_[l].resize(static_cast<std::size_t>(moe.experts));
    for (std::int32_t id : ids) ++chosen_[l][static_cast<std::size_t>(id)];
  }

  void expect_spread_routing(std::int64_t tokens) const {
    for (std::size_t l = 0; l < chosen_.size(); ++l) {
      if (chosen_[l].empty()) continue;
      const auto& moe = std::get<MoeSpec>(spec_.layers[l].ffn);
      const auto even = static_cast<double>(tokens * moe.top_k) / static_cast<double>(moe.experts);
      for (int count : chosen_[l]) {
        EXPECT_GT(count, even / 10) << "layer " << l;
        EXPECT_LT(count, even * 4) << "layer " << l;
      }
    }
  }

 private:
  const ModelSpec& spec_;
  std::vector<std::vector<int>> chosen_;
};

double share_within(const std::vector<float>& values, float low, float high) {
  const auto inside =
      std::count_if(values.begin(), values.end(), [&](float v) { return v > low && v < high; });
  return static_cast<double>(inside) / static_cast<double>(values.size());
}

class RandomModel : public testing::TestWithParam<const char*> {};

TEST_P(RandomModel, has_activations_of_order_one_spread_routing_and_open_gates) {
  const TempFolder folder;
  const auto made = make_random_checkpoint(source_path(GetParam()), folder.path(), {.seed = 5});
  ASSERT_TRUE(made) << made.error().message;

  KernelSet kernels = cpu_kernels();
  kernels.kda_gates = recording_gates;
  g_log_decays.clear();
  g_betas.clear();
  const auto model = Model::load(folder.path(), Precision::kExact, kernels);
  ASSERT_TRUE(model) << model.error().message;

  constexpr std::int64_t kTokens = 200;
  std::mt19937 random(1);
  std::vector<TokenId> ids(kTokens);
  const auto vocab = static_cast<std::uint32_t>((*model)->spec().vocab_size);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % vocab);
  Recorder recorder((*model)->spec());
  ThreadTeam team(1);
  TestSequence sequence(**model, 16);
  const Matrix logits = run_chunks(**model, team, sequence, ids, {kTokens}, &recorder);
  recorder.expect_spread_routing(kTokens);
  EXPECT_GT(share_within(g_log_decays, -4.0f, -0.002f), 0.98);
  EXPECT_GT(share_within(g_log_decays, -0.5f, -0.002f), 0.2) << "some channels remember";
  EXPECT_GT(share_within(g_betas, 0.02f, 0.98f), 0.98);
  for (float logit : logits.values) ASSERT_TRUE(std::fabs(logit) < 10.0f) << logit;
}

INSTANTIATE_TEST_SUITE_P(all, RandomModel,
                         testing::Values("tests/data/configs/k3-tiny-24h.config.json",
                                         "tests/data/golden/kimi_linear_tiny/config.json"));

}  // namespace
}  // namespace tandem
