#include <cmath>
#include <limits>

#include "kernels/kernel_testing.h"

namespace tandem::testing {
namespace {

using NormTest = KernelTest;
TANDEM_FOR_ALL_KERNELS(NormTest);

constexpr std::int64_t kWidths[] = {1, 2, 7, 8, 9, 31, 64, 100, 257, 1024};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double inverse_rms(const Rows& x, std::int64_t t, std::int64_t first, std::int64_t size,
                   double eps) {
  double sum = 0;
  for (std::int64_t i = first; i < first + size; ++i) sum += std::pow(x.at(t, i), 2);
  return 1 / std::sqrt(sum / static_cast<double>(size) + eps);
}

// The sum of squares has only positive terms, so its relative error is that of its additions; then
// a root, a quotient and two products.
double norm_error(std::int64_t width) {
  return (8 + std::sqrt(static_cast<double>(width))) * kUnit;
}

// A sigmoid, tanh or exp of fp32 accuracy is within a few units of its result; what would be
// subnormal may become zero.
constexpr double kElementwiseError = 16 * kUnit;
constexpr double kTiny = std::numeric_limits<float>::min();

TEST_P(NormTest, rms_norm_divides_by_the_root_mean_square) {
  for (std::int64_t width : kWidths) {
    for (double scale : {1e-4, 1.0, 300.0}) {
      const float eps = 1.3e-6f;
      const Rows x = Rows::random(random_, 3, width, scale);
      const GuardedVector<float> weight = random_.vector(width, 0.3, 1);
      Rows y(3, width);
      kernels().rms_norm({x, weight.data(), eps, y}, team_);
      ASSERT_TRUE(y.written_exactly());
      const auto expected = [&](auto t, auto i) {
        return x.at(t, i) * inverse_rms(x, t, 0, width, eps) * weight[i];
      };
      ASSERT_TRUE(near(y, expected, [&](auto t, auto i) {
        return norm_error(width) * std::fabs(expected(t, i));
      })) << width;
    }
  }
}

TEST_P(NormTest, a_row_of_zeros_normalises_to_zeros) {
  Rows x(1, 9);
  for (std::int64_t i = 0; i < 9; ++i) x.at(0, i) = 0;
  const GuardedVector<float> weight(9, 1.0f);
  kernels().rms_norm({x, weight.data(), 1e-6f, x}, team_);
  EXPECT_TRUE(near(
      x, [](auto, auto) { return 0.0; }, [](auto, auto) { return 0.0; }));
}

TEST_P(NormTest, rms_norm_in_place_gives_the_same_bits) {
  for (std::int64_t width : kWidths) {
    Rows x = Rows::random(random_, 5, width);
    const GuardedVector<float> weight = random_.vector(width);
    Rows y(5, width);
    kernels().rms_norm({x, weight.data(), 1e-5f, y}, team_);
    kernels().rms_norm({x, weight.data(), 1e-5f, x}, team_);
    ASSERT_TRUE(x.written_exactly());
    for (std::int64_t t = 0; t < 5; ++t) {
      ASSERT_TRUE(same_bits(x.view().row(t), y.view().row(t), width)) << width;
    }
  }
}

TEST_P(NormTest, rms_norm_of_a_row_has_the_same_bits_in_any_company) {
  for (std::int64_t width : kWidths) {
    const Rows x = Rows::random(random_, 50, width);
    const GuardedVector<float> weight = random_.vector(width);
    expect_rows_independent(random_, 50, [&](const auto& order, ThreadTeam& team) {
      Rows y = x.select(order);
      kernels().rms_norm({y, weight.data(), 1e-5f, y}, team);
      return y;
    });
  }
}

TEST_P(NormTest, gated_norm_normalises_each_head_and_then_gates) {
  for (std::int64_t heads : {1, 3}) {
    for (std::int64_t d : {1, 7, 8, 20, 128}) {
      const float eps = 0.01f;
      Rows x = Rows::random(random_, 4, heads * d);
      const Rows gate = Rows::random(random_, 4, heads * d, 3);
      const GuardedVector<float> weight = random_.vector(d, 0.3, 1);
      Rows y(4, heads * d);
      kernels().gated_rms_norm({x, gate, weight.data(), heads, eps, y}, team_);
      ASSERT_TRUE(y.written_exactly());
      const auto expected = [&](auto t, auto i) {
        return x.at(t, i) * inverse_rms(x, t, i / d * d, d, eps) * weight[i % d] *
               sigmoid(gate.at(t, i));
      };
      ASSERT_TRUE(near(y, expected,
                       [&](auto t, auto i) {
                         return (norm_error(d) + kElementwiseError) * std::fabs(expected(t, i)) +
                                kTiny;
                       }))
          << heads << " heads of " << d;
      kernels().gated_rms_norm({x, gate, weight.data(), heads, eps, x}, team_);
      for (std::int64_t t = 0; t < 4; ++t) {
        ASSERT_TRUE(same_bits(x.view().row(t), y.view().row(t), heads * d)) << "in place";
      }
    }
  }
}

TEST_P(NormTest, gated_norm_of_a_row_has_the_same_bits_in_any_company) {
  const Rows x = Rows::random(random_, 30, 600);
  const Rows gate = Rows::random(random_, 30, 600);
  const GuardedVector<float> weight = random_.vector(200);
  expect_rows_independent(random_, 30, [&](const auto& order, ThreadTeam& team) {
    Rows y = x.select(order);
    kernels().gated_rms_norm({y, gate.select(order), weight.data(), 3, 1e-5f, y}, team);
    return y;
  });
}

// Values of every magnitude that an activation meets, and beyond: saturated both ways.
Rows wide_values(Random& random, std::int64_t rows, std::int64_t columns) {
  Rows x(rows, columns);
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const double magnitude = std::pow(10.0, random.uniform(-6, 3));
      x.at(t, i) = static_cast<float>(random.integer(0, 1) == 0 ? magnitude : -magnitude);
    }
  }
  return x;
}

TEST_P(NormTest, sigmoid_gate_multiplies_and_may_work_in_place) {
  for (std::int64_t width : kWidths) {
    Rows x = Rows::random(random_, 3, width);
    const Rows gate = wide_values(random_, 3, width);
    Rows y(3, width);
    kernels().sigmoid_gate({x, gate, y}, team_);
    ASSERT_TRUE(y.written_exactly());
    const auto expected = [&](auto t, auto i) { return x.at(t, i) * sigmoid(gate.at(t, i)); };
    ASSERT_TRUE(near(y, expected, [&](auto t, auto i) {
      return kElementwiseError * std::fabs(expected(t, i)) + kTiny * (1 + std::fabs(x.at(t, i)));
    }));
    kernels().sigmoid_gate({x, gate, x}, team_);
    for (std::int64_t t = 0; t < 3; ++t) {
      ASSERT_TRUE(same_bits(x.view().row(t), y.view().row(t), width));
    }
  }
}

TEST_P(NormTest, add_rounds_once_and_may_overwrite_either_operand) {
  for (std::int64_t width : kWidths) {
    Rows a = Rows::random(random_, 3, width);
    Rows b = Rows::random(random_, 3, width);
    Rows y(3, width);
    kernels().add({a, b, y}, team_);
    ASSERT_TRUE(y.written_exactly());
    const auto sum = [&](auto t, auto i) { return a.at(t, i) + b.at(t, i); };
    ASSERT_TRUE(near(y, sum, [](auto, auto) { return 0.0; }));
    Rows left = a;
    kernels().add({left, b, left}, team_);
    kernels().add({a, b, b}, team_);
    for (std::int64_t t = 0; t < 3; ++t) {
      ASSERT_TRUE(same_bits(left.view().row(t), y.view().row(t), width));
      ASSERT_TRUE(same_bits(b.view().row(t), y.view().row(t), width));
    }
  }
}

const ActivationSpec kActivations[] = {{GatedActivation::kSwiGlu},
                                       {GatedActivation::kSituGlu, 4, 25},
                                       {GatedActivation::kSituGlu, 1.5f, 3}};

double activation(const ActivationSpec& spec, double gate, double up) {
  if (spec.kind == GatedActivation::kSwiGlu) return gate * sigmoid(gate) * up;
  return spec.gate_beta * std::tanh(gate / spec.gate_beta) * sigmoid(gate) * spec.up_beta *
         std::tanh(up / spec.up_beta);
}

TEST_P(NormTest, gated_activation_is_relatively_accurate_at_every_magnitude) {
  for (const ActivationSpec& spec : kActivations) {
    for (std::int64_t width : {1, 7, 16, 501}) {
      Rows gate = wide_values(random_, 4, width);
      const Rows up = wide_values(random_, 4, width);
      Rows y(4, width);
      kernels().gated_activation({gate, up, spec, y}, team_);
      ASSERT_TRUE(y.written_exactly());
      const auto expected = [&](auto t, auto i) {
        return activation(spec, gate.at(t, i), up.at(t, i));
      };
      // Two functions more than a sigmoid: twice its error. A subnormal sigmoid may be lost.
      ASSERT_TRUE(near(y, expected, [&](auto t, auto i) {
        const double lost = kTiny * (1 + std::fabs(gate.at(t, i) * up.at(t, i)));
        return 2 * kElementwiseError * std::fabs(expected(t, i)) + lost;
      })) << spec.gate_beta;
      kernels().gated_activation({gate, up, spec, gate}, team_);
      for (std::int64_t t = 0; t < 4; ++t) {
        ASSERT_TRUE(same_bits(gate.view().row(t), y.view().row(t), width)) << "in place";
      }
    }
  }
}

TEST_P(NormTest, situ_is_bounded_by_the_product_of_its_betas) {
  const Rows gate = wide_values(random_, 8, 100);
  const Rows up = wide_values(random_, 8, 100);
  Rows y(8, 100);
  kernels().gated_activation({gate, up, {GatedActivation::kSituGlu, 4, 25}, y}, team_);
  EXPECT_TRUE(near(
      y, [](auto, auto) { return 0.0; }, [](auto, auto) { return 100.0; }));
}

TEST_P(NormTest, elementwise_rows_have_the_same_bits_in_any_company) {
  const Rows a = wide_values(random_, 30, 605);
  const Rows b = wide_values(random_, 30, 605);
  for (const ActivationSpec& spec : kActivations) {
    expect_rows_independent(random_, 30, [&](const auto& order, ThreadTeam& team) {
      Rows y(static_cast<std::int64_t>(order.size()), 605);
      kernels().gated_activation({a.select(order), b.select(order), spec, y}, team);
      return y;
    });
  }
  expect_rows_independent(random_, 30, [&](const auto& order, ThreadTeam& team) {
    Rows y(static_cast<std::int64_t>(order.size()), 605);
    kernels().sigmoid_gate({a.select(order), b.select(order), y}, team);
    return y;
  });
}

}  // namespace
}  // namespace tandem::testing
