// Norms, gates, activations, the residual mix, the router and the head: gradients against central
// differences in fp64, forward values against the reference kernels.
#include "kernels/kernel_set.h"
#include "train/ops/gradient_check.h"
#include "train/ops/head.h"
#include "train/ops/norm.h"
#include "train/ops/residual_mix.h"
#include "train/ops/router.h"

namespace tandem::train {
namespace {

constexpr double kFp32Bound = 1e-5;  // rl.md, I-3

struct ElementwiseGradients : testing::Test {
  ThreadTeam team{2};
  RandomNumbers random{7};
};

TEST_F(ElementwiseGradients, rms_norm) {
  auto x = random.matrix<double>(5, 19, 1.3);
  auto w = random.vector<float>(19, 0.5, 1);
  const auto r = random.vector<double>(5 * 19, 1);
  const auto loss = [&] {
    Owned<double> y(5, 19);
    rms_norm<double>(x.view(), w.data(), 1e-3f, y.view());
    return weighted_sum(y.values, r);
  };
  Owned<double> dx(5, 19), dw(1, 19);
  rms_norm_backward<double>(x.view(), w.data(), 1e-3f, {r.data(), 5, 19, 19}, dx.view(),
                            dw.values.data(), team);
  expect_gradient("x", x.values, dx.values, loss);
  expect_gradient("weight", w, dw.values, loss, 1e-2);
}

TEST_F(ElementwiseGradients, gated_rms_norm) {
  auto x = random.matrix<double>(4, 21, 1.1);
  auto gate = random.matrix<double>(4, 21, 1.5);
  auto w = random.vector<float>(7, 0.5, 1);
  const auto r = random.vector<double>(4 * 21, 1);
  const auto loss = [&] {
    Owned<double> y(4, 21);
    gated_rms_norm<double>(x.view(), gate.view(), w.data(), 3, 1e-3f, y.view());
    return weighted_sum(y.values, r);
  };
  Owned<double> dx(4, 21), dgate(4, 21), dw(1, 7);
  gated_rms_norm_backward<double>(x.view(), gate.view(), w.data(), 3, 1e-3f, {r.data(), 4, 21, 21},
                                  dx.view(), dgate.view(), dw.values.data(), team);
  expect_gradient("x", x.values, dx.values, loss);
  expect_gradient("gate", gate.values, dgate.values, loss);
  expect_gradient("weight", w, dw.values, loss, 1e-2);
}

TEST_F(ElementwiseGradients, sigmoid_gate) {
  auto x = random.matrix<double>(4, 9, 1.1);
  auto gate = random.matrix<double>(4, 9, 1.5);
  const auto r = random.vector<double>(36, 1);
  const auto loss = [&] {
    Owned<double> y(4, 9);
    sigmoid_gate<double>(x.view(), gate.view(), y.view());
    return weighted_sum(y.values, r);
  };
  Owned<double> dx(4, 9), dgate(4, 9);
  sigmoid_gate_backward<double>(x.view(), gate.view(), {r.data(), 4, 9, 9}, dx.view(), dgate.view(),
                                team);
  expect_gradient("x", x.values, dx.values, loss);
  expect_gradient("gate", gate.values, dgate.values, loss);
}

TEST_F(ElementwiseGradients, both_activations) {
  for (const ActivationSpec& spec : {ActivationSpec{GatedActivation::kSwiGlu},
                                     {GatedActivation::kSituGlu, 4.0f, 25.0f},
                                     {GatedActivation::kSituGlu, 1.5f, 2.0f}}) {
    auto gate = random.matrix<double>(4, 11, 2);
    auto up = random.matrix<double>(4, 11, 2);
    const auto r = random.vector<double>(44, 1);
    const auto loss = [&] {
      Owned<double> y(4, 11);
      gated_activation<double>(spec, gate.view(), up.view(), y.view());
      return weighted_sum(y.values, r);
    };
    Owned<double> dgate(4, 11), dup(4, 11);
    gated_activation_backward<double>(spec, gate.view(), up.view(), {r.data(), 4, 11, 11},
                                      dgate.view(), dup.view(), team);
    expect_gradient("gate", gate.values, dgate.values, loss);
    expect_gradient("up", up.values, dup.values, loss);
  }
}

TEST_F(ElementwiseGradients, residual_mix) {
  std::vector<Owned<double>> rows;
  for (int j = 0; j < 4; ++j) rows.push_back(random.matrix<double>(3, 17, 1 + 0.3 * j));
  auto query = random.vector<float>(17, 0.6);
  const auto r = random.vector<double>(3 * 17, 1);
  const auto views = [&] {
    std::vector<ConstRows<double>> made;
    for (Owned<double>& row : rows) made.push_back(row.view());
    return made;
  };
  const auto loss = [&] {
    Owned<double> y(3, 17);
    residual_mix<double>(views(), query.data(), 1e-3f, y.view());
    return weighted_sum(y.values, r);
  };
  std::vector<Owned<double>> grads(4, Owned<double>(3, 17));
  std::vector<Rows<double>> drows;
  for (Owned<double>& grad : grads) drows.push_back(grad.view());
  Owned<double> dquery(1, 17);
  residual_mix_backward<double>(views(), query.data(), 1e-3f, {r.data(), 3, 17, 17}, drows,
                                dquery.values.data(), team);
  for (std::size_t j = 0; j < 4; ++j) {
    expect_gradient("row", rows[j].values, grads[j].values, loss);
  }
  expect_gradient("query", query, dquery.values, loss, 1e-2);
}

TEST_F(ElementwiseGradients, router_weights_of_every_kind) {
  const std::vector<std::int32_t> ids = {0, 3, 4, 1, 2, 6, 3, 5, 6};
  const auto bias = random.vector<float>(7, 0.05, 0.1);
  for (const bool renormalize : {true, false}) {
    for (const bool bias_in_weights : {true, false}) {
      const RouterArgs shape{.bias = bias.data(),
                             .top_k = 3,
                             .renormalize = renormalize,
                             .bias_in_weights = bias_in_weights,
                             .scaling = 2.446f};
      auto logits = random.matrix<double>(3, 7, 1.2);
      const auto r = random.vector<double>(9, 1);
      const auto loss = [&] {
        Owned<double> w(3, 3);
        router_weights<double>(shape, logits.view(), ids.data(), w.view());
        return weighted_sum(w.values, r);
      };
      Owned<double> dlogits(3, 7);
      router_weights_backward<double>(shape, logits.view(), ids.data(), {r.data(), 3, 3, 3},
                                      dlogits.view());
      expect_gradient("logits", logits.values, dlogits.values, loss);
    }
  }
}

TEST_F(ElementwiseGradients, log_prob_and_entropy_at_a_temperature) {
  auto logits = random.matrix<double>(4, 13, 2);
  const std::vector<TokenId> targets = {0, 12, 5, 5};
  std::vector<TokenScoreGradient> r;
  for (int t = 0; t < 4; ++t) r.push_back({random.next(), random.next()});
  const auto loss = [&] {
    std::vector<TokenScore> scores(4);
    score_tokens<double>(logits.view(), targets, 0.7f, scores);
    double sum = 0;
    for (std::size_t t = 0; t < 4; ++t) {
      sum += r[t].log_prob * scores[t].log_prob + r[t].entropy * scores[t].entropy;
    }
    return sum;
  };
  Owned<double> dlogits(4, 13);
  score_tokens_backward<double>(logits.view(), targets, 0.7f, r, dlogits.view());
  expect_gradient("logits", logits.values, dlogits.values, loss);
}

// The forward functions here are those of the kernels.
TEST_F(ElementwiseGradients, forward_values_are_those_of_the_reference_kernels) {
  const KernelSet& ref = reference_kernels();
  const auto x = random.matrix<float>(6, 24, 1.2);
  const auto gate = random.matrix<float>(6, 24, 1.2);
  const auto w = random.vector<float>(24, 0.4, 1);
  Owned<float> ours(6, 24), theirs(6, 24);

  rms_norm<float>(x.view(), w.data(), 1e-5f, ours.view());
  ref.rms_norm({.x = x.view(), .weight = w.data(), .eps = 1e-5f, .y = theirs.view()}, team);
  EXPECT_LE(relative_error(ours.values, theirs.values), kFp32Bound);

  gated_rms_norm<float>(x.view(), gate.view(), w.data(), 3, 1e-5f, ours.view());
  ref.gated_rms_norm({.x = x.view(),
                      .gate = gate.view(),
                      .weight = w.data(),
                      .heads = 3,
                      .eps = 1e-5f,
                      .y = theirs.view()},
                     team);
  EXPECT_LE(relative_error(ours.values, theirs.values), kFp32Bound);

  const ActivationSpec situ{GatedActivation::kSituGlu, 4.0f, 25.0f};
  gated_activation<float>(situ, gate.view(), x.view(), ours.view());
  ref.gated_activation(
      {.gate = gate.view(), .up = x.view(), .activation = situ, .y = theirs.view()}, team);
  EXPECT_LE(relative_error(ours.values, theirs.values), kFp32Bound);

  const std::vector<ConstRows<float>> bank = {x.view(), gate.view()};
  residual_mix<float>(bank, w.data(), 1e-5f, ours.view());
  ref.residual_mix({.bank = bank.data(),
                    .bank_rows = 1,
                    .stream = gate.view(),
                    .query = w.data(),
                    .eps = 1e-5f,
                    .y = theirs.view()},
                   team);
  EXPECT_LE(relative_error(ours.values, theirs.values), kFp32Bound);

  std::vector<std::int32_t> ids(6 * 5);
  std::vector<float> chosen(6 * 5);
  const auto bias = random.vector<float>(24, 0.3);
  ref.router({.logits = x.view(),
              .bias = bias.data(),
              .top_k = 5,
              .scaling = 1.7f,
              .ids = ids.data(),
              .weights = chosen.data()},
             team);
  Owned<float> weights(6, 5);
  router_weights<float>({.bias = bias.data(), .top_k = 5, .scaling = 1.7f}, x.view(), ids.data(),
                        weights.view());
  EXPECT_LE(relative_error(weights.values, chosen), kFp32Bound);
}

}  // namespace
}  // namespace tandem::train
