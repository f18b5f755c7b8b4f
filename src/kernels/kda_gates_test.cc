#include <cmath>

#include "kernels/kernel_testing.h"

namespace tandem::testing {
namespace {

using KdaGatesTest = KernelTest;
TANDEM_FOR_ALL_KERNELS(KdaGatesTest);

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Gates {
  std::int64_t heads, d;
  Rows decay, beta;
  GuardedVector<float> dt_bias, rate;

  // Rates reach those of real weights: 201 at most, 8 on average.
  Gates(Random& random, std::int64_t heads_, std::int64_t d_, std::int64_t tokens)
      : heads(heads_),
        d(d_),
        decay(Rows::random(random, tokens, heads_ * d_, 4)),
        beta(Rows::random(random, tokens, heads_, 4)),
        dt_bias(random.vector(heads_ * d_)) {
    for (std::int64_t h = 0; h < heads; ++h) rate.push_back(std::exp(random.uniform(-1, 5.3)));
  }

  void run(const KernelSet& kernels, Rows& g, Rows& b, std::optional<float> bound,
           ThreadTeam& team) const {
    kernels.kda_gates({g, b, dt_bias.data(), rate.data(), bound, heads}, team);
  }
};

TEST_P(KdaGatesTest, bounded_decay_is_a_scaled_sigmoid_of_the_rated_logit) {
  for (std::int64_t heads : {1, 3}) {
    for (std::int64_t d : {1, 8, 20, 128}) {
      const Gates in(random_, heads, d, 5);
      Rows g = in.decay, b = in.beta;
      in.run(kernels(), g, b, -5.0f, team_);
      ASSERT_TRUE(g.written_exactly());
      ASSERT_TRUE(b.written_exactly());
      const auto logit = [&](auto t, auto i) {
        return in.rate[i / d] * (static_cast<double>(in.decay.at(t, i)) + in.dt_bias[i]);
      };
      // The logit rounds relative to its operands; sigmoid passes that on as a relative error.
      ASSERT_TRUE(near(
          g, [&](auto t, auto i) { return -5 * sigmoid(logit(t, i)); },
          [&](auto t, auto i) {
            const double operands = std::fabs(in.decay.at(t, i)) + std::fabs(in.dt_bias[i]);
            const double relative = kUnit * (16 + 2 * in.rate[i / d] * operands);
            return relative * 5 * sigmoid(logit(t, i)) + 1e-37;
          }));
    }
  }
}

TEST_P(KdaGatesTest, unbounded_decay_is_a_rated_softplus) {
  for (std::int64_t heads : {1, 3}) {
    for (std::int64_t d : {1, 8, 20, 128}) {
      const Gates in(random_, heads, d, 5);
      Rows g = in.decay, b = in.beta;
      in.run(kernels(), g, b, std::nullopt, team_);
      const auto logit = [&](auto t, auto i) {
        return static_cast<double>(in.decay.at(t, i)) + in.dt_bias[i];
      };
      const auto softplus = [](double u) { return std::log1p(std::exp(u)); };
      ASSERT_TRUE(near(
          g, [&](auto t, auto i) { return -in.rate[i / d] * softplus(logit(t, i)); },
          [&](auto t, auto i) {
            const double operands = std::fabs(in.decay.at(t, i)) + std::fabs(in.dt_bias[i]);
            return kUnit * (16 + operands) * in.rate[i / d] * softplus(logit(t, i)) + 1e-37;
          }));
    }
  }
}

TEST_P(KdaGatesTest, beta_is_a_sigmoid) {
  const Gates in(random_, 5, 4, 9);
  Rows g = in.decay, b = in.beta;
  in.run(kernels(), g, b, -5.0f, team_);
  EXPECT_TRUE(near(
      b, [&](auto t, auto h) { return sigmoid(in.beta.at(t, h)); },
      [&](auto t, auto h) { return 16 * kUnit * sigmoid(in.beta.at(t, h)); }));
}

TEST_P(KdaGatesTest, extreme_logits_stay_finite_and_never_positive) {
  for (std::optional<float> bound : {std::optional<float>(-5.0f), std::optional<float>()}) {
    Gates in(random_, 1, 8, 4);
    in.rate[0] = 201;
    const float extremes[] = {-1e30f, -200, -90, -1, 0, 20.5f, 90, 1000};
    for (std::int64_t t = 0; t < 4; ++t) {
      for (std::int64_t i = 0; i < 8; ++i) in.decay.at(t, i) = extremes[i];
      in.beta.at(t, 0) = extremes[2 * t];
    }
    Rows g = in.decay, b = in.beta;
    in.run(kernels(), g, b, bound, team_);
    for (std::int64_t t = 0; t < 4; ++t) {
      for (std::int64_t i = 0; i < 8; ++i) {
        EXPECT_TRUE(std::isfinite(g.at(t, i)) && g.at(t, i) <= 0) << extremes[i];
        EXPECT_TRUE(!bound || g.at(t, i) >= *bound);
      }
      EXPECT_TRUE(b.at(t, 0) >= 0 && b.at(t, 0) <= 1);
    }
  }
}

TEST_P(KdaGatesTest, a_row_has_the_same_bits_in_any_company) {
  for (std::optional<float> bound : {std::optional<float>(-5.0f), std::optional<float>()}) {
    const Gates in(random_, 3, 130, 40);
    expect_rows_independent(random_, 40, [&](const auto& order, ThreadTeam& team) {
      Rows g = in.decay.select(order), b = in.beta.select(order);
      in.run(kernels(), g, b, bound, team);
      Rows both(g.rows(), g.columns() + b.columns());
      for (std::int64_t t = 0; t < g.rows(); ++t) {
        for (std::int64_t i = 0; i < 390; ++i) both.at(t, i) = g.at(t, i);
        for (std::int64_t h = 0; h < 3; ++h) both.at(t, 390 + h) = b.at(t, h);
      }
      return both;
    });
  }
}

}  // namespace
}  // namespace tandem::testing
