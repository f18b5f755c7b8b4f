#include <cmath>

#include "kernels/kernel_testing.h"

namespace tandem::testing {
namespace {

using LinearTest = KernelTest;
TANDEM_FOR_ALL_KERNELS(LinearTest);

struct Sums {
  double value = 0;
  double magnitude = 0;  // sum of |x w|
};

Sums product(const Rows& x, const RandomWeight& w, std::int64_t t, std::int64_t o) {
  Sums sums;
  for (std::int64_t i = 0; i < x.columns(); ++i) {
    const double term = x.at(t, i) * w.at(o, i);
    sums.value += term;
    sums.magnitude += std::fabs(term);
  }
  return sums;
}

struct Kind {
  DType dtype;
  bool tiled = false;

  WeightMatrix view(RandomWeight& w) const { return tiled ? w.tiled() : w.view(); }
  std::string name() const { return fmt::format("{}{}", to_string(dtype), tiled ? " tiles" : ""); }
};

std::vector<Kind> kinds_of_weight(std::int64_t inputs) {
  std::vector<Kind> kinds = {{DType::kBF16, true}};
  for (DType dtype : weight_dtypes(inputs)) kinds.push_back({dtype});
  return kinds;
}

TEST_P(LinearTest, matches_the_sum_in_double) {
  const std::int64_t token_counts[] = {1, 2, 3, 5, 9, 13, 20, 31};
  const std::int64_t input_widths[] = {1, 2, 7, 8, 15, 31, 32, 64, 100, 160, 257, 512};
  const std::int64_t output_widths[] = {1, 3, 4, 8, 17, 33};
  for (std::int64_t inputs : input_widths) {
    for (std::int64_t outputs : output_widths) {
      for (const Kind& kind : kinds_of_weight(inputs)) {
        RandomWeight w(random_, kind.dtype, outputs, inputs);
        const std::int64_t tokens = token_counts[random_.integer(0, 7)];
        SCOPED_TRACE(fmt::format("{} [{}, {}], {} rows", kind.name(), outputs, inputs, tokens));
        const Rows x = Rows::random(random_, tokens, inputs);
        Rows y(tokens, outputs);
        kernels().linear({x, kind.view(w), y}, team_);
        ASSERT_TRUE(y.written_exactly());
        // Products and additions each round once; the signs of the errors are random, so they add
        // as the square root of their number.
        const double error = (4 + std::sqrt(static_cast<double>(inputs))) * kUnit;
        ASSERT_TRUE(near(
            y, [&](auto t, auto o) { return product(x, w, t, o).value; },
            [&](auto t, auto o) { return error * product(x, w, t, o).magnitude; }));
      }
    }
  }
}

TEST_P(LinearTest, no_rows_write_nothing) {
  const RandomWeight w(random_, DType::kBF16, 5, 16);
  const Rows x(0, 16);
  Rows y(0, 5);
  kernels().linear({x, w.view(), y}, team_);
  EXPECT_TRUE(y.written_exactly());
}

// One weight of every code and scale at a time: x picks a column, so nothing rounds.
TEST_P(LinearTest, decodes_every_mxfp4_code_and_scale_exactly) {
  constexpr std::int64_t kScales = 252;  // 2^(byte-127) * 6 is finite
  GuardedVector<std::uint8_t> packed(static_cast<std::size_t>(kScales * 16));
  GuardedVector<std::uint8_t> scale(static_cast<std::size_t>(kScales));
  for (std::int64_t o = 0; o < kScales; ++o) {
    scale[o] = static_cast<std::uint8_t>(o);
    for (std::int64_t j = 0; j < 16; ++j) {
      packed[o * 16 + j] = static_cast<std::uint8_t>(j | ((15 - j) << 4));
    }
  }
  Rows x(32, 32);
  for (std::int64_t i = 0; i < 32; ++i) {
    for (std::int64_t t = 0; t < 32; ++t) x.at(t, i) = t == i ? 1.0f : 0.0f;
  }
  Rows y(32, kScales);
  kernels().linear({x, {DType::kMxfp4, packed.data(), scale.data(), kScales, 32}, y}, team_);
  const auto expected = [](std::int64_t t, std::int64_t o) {
    const std::int64_t code = t % 2 == 0 ? t / 2 : 15 - t / 2;
    return std::ldexp(kE2m1Values[static_cast<std::size_t>(code)], static_cast<int>(o) - 127);
  };
  EXPECT_TRUE(near(y, expected, [](auto, auto) { return 0.0; }));
}

TEST_P(LinearTest, a_row_has_the_same_bits_in_any_company) {
  for (std::int64_t inputs : {1, 31, 64, 257, 512}) {
    for (const Kind& kind : kinds_of_weight(inputs)) {
      SCOPED_TRACE(fmt::format("{} inputs, {}", inputs, kind.name()));
      RandomWeight w(random_, kind.dtype, 67, inputs);
      const WeightMatrix view = kind.view(w);
      const Rows x = Rows::random(random_, inputs == 512 ? 70 : 19, inputs);
      expect_rows_independent(random_, x.rows(), [&](const auto& order, ThreadTeam& team) {
        const Rows part = x.select(order);
        Rows y(part.rows(), 67);
        kernels().linear({part, view, y}, team);
        return y;
      });
    }
  }
}

// A sharded or sliced weight gives the bits of the whole one.
TEST_P(LinearTest, an_output_has_the_same_bits_whatever_its_neighbours) {
  for (DType dtype : weight_dtypes(96)) {
    const RandomWeight w(random_, dtype, 23, 96);
    const Rows x = Rows::random(random_, 6, 96);
    Rows all(6, 23);
    kernels().linear({x, w.view(), all}, team_);
    for (std::int64_t o = 0; o < 23; ++o) {
      WeightMatrix one = w.view();
      const std::int64_t row_bytes =
          dtype == DType::kMxfp4 ? 48 : 96 * static_cast<std::int64_t>(element_bytes(dtype));
      one.data = static_cast<const std::byte*>(one.data) + o * row_bytes;
      if (one.scale != nullptr) one.scale += o * 3;
      one.outputs = 1;
      Rows y(6, 1);
      kernels().linear({x, one, y}, team_);
      for (std::int64_t t = 0; t < 6; ++t) {
        ASSERT_EQ(y.at(t, 0), all.at(t, o)) << to_string(dtype) << " output " << o;
      }
    }
  }
}

TEST_P(LinearTest, embedding_widens_the_rows_of_its_ids) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (std::int64_t width : {1, 7, 8, 33, 128}) {
      const RandomWeight table(random_, dtype, 11, width);
      const std::vector<TokenId> ids = {10, 0, 3, 3};
      Rows y(4, width);
      kernels().embed({ids.data(), table.view(), y}, team_);
      ASSERT_TRUE(y.written_exactly());
      ASSERT_TRUE(near(
          y, [&](auto t, auto i) { return table.at(ids[t], i); }, [](auto, auto) { return 0.0; }));
    }
  }
}

}  // namespace
}  // namespace tandem::testing
