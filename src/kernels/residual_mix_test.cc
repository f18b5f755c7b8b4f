#include <cmath>

#include "kernels/kernel_testing.h"

namespace tandem::testing {
namespace {

constexpr float kEps = 1e-3f;

// A stream and its bank, [rows][T, H].
struct Streams {
  std::vector<Rows> bank;
  Rows stream;
  GuardedVector<float> query;

  Streams(Random& random, std::int64_t bank_rows, std::int64_t tokens, std::int64_t width,
          double query_scale)
      : stream(Rows::random(random, tokens, width)), query(random.vector(width, query_scale)) {
    for (std::int64_t j = 0; j < bank_rows; ++j) {
      bank.push_back(Rows::random(random, tokens, width, 0.5 + static_cast<double>(j)));
    }
  }

  const Rows& row(std::size_t j) const { return j < bank.size() ? bank[j] : stream; }

  Rows mix(const KernelSet& kernels, const std::vector<std::int64_t>& order,
           ThreadTeam& team) const {
    std::vector<Rows> selected;
    for (const Rows& rows : bank) selected.push_back(rows.select(order));
    const std::vector<ConstActivations> views(selected.begin(), selected.end());
    Rows y(static_cast<std::int64_t>(order.size()), stream.columns());
    const Rows current = stream.select(order);
    kernels.residual_mix(
        {views.data(), static_cast<std::int64_t>(views.size()), current, query.data(), kEps, y},
        team);
    return y;
  }

  // The mixing weights of token t.
  std::vector<double> weights(std::int64_t t) const {
    std::vector<double> a;
    double total = 0;
    for (std::size_t j = 0; j <= bank.size(); ++j) {
      double square = 0, dot = 0;
      for (std::int64_t d = 0; d < stream.columns(); ++d) {
        square += std::pow(row(j).at(t, d), 2);
        dot += static_cast<double>(row(j).at(t, d)) * query[d];
      }
      a.push_back(std::exp(dot / std::sqrt(square / static_cast<double>(stream.columns()) + kEps)));
      total += a.back();
    }
    for (double& weight : a) weight /= total;
    return a;
  }
};

using ResidualMixTest = KernelTest;
TANDEM_FOR_ALL_KERNELS(ResidualMixTest);

TEST_P(ResidualMixTest, mixes_raw_rows_by_the_softmax_of_normalised_scores) {
  for (std::int64_t width : {1, 7, 8, 64, 130}) {
    for (std::int64_t bank_rows : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 63}) {
      SCOPED_TRACE(fmt::format("{} bank rows of {}", bank_rows, width));
      const Streams in(random_, bank_rows, 3, width, 0.3);
      const Rows y = in.mix(kernels(), {0, 1, 2}, team_);
      ASSERT_TRUE(y.written_exactly());
      const auto mixed = [&](auto t, auto d, bool magnitude) {
        const std::vector<double> a = in.weights(t);
        double sum = 0;
        for (std::size_t j = 0; j < a.size(); ++j) {
          sum += a[j] * (magnitude ? std::fabs(in.row(j).at(t, d)) : in.row(j).at(t, d));
        }
        return sum;
      };
      // A score's absolute error is its sum's; it becomes a relative error of the weights.
      const double magnitude = 0.3 * static_cast<double>(width) * 4;
      const double error = (16 + static_cast<double>(bank_rows) + magnitude) * kUnit;
      ASSERT_TRUE(near(
          y, [&](auto t, auto d) { return mixed(t, d, false); },
          [&](auto t, auto d) { return error * mixed(t, d, true); }));
    }
  }
}

TEST_P(ResidualMixTest, an_empty_bank_returns_the_stream) {
  const Streams in(random_, 0, 4, 33, 1);
  const Rows y = in.mix(kernels(), {0, 1, 2, 3}, team_);
  EXPECT_TRUE(near(
      y, [&](auto t, auto d) { return in.stream.at(t, d); }, [](auto, auto) { return 0.0; }));
}

// Scores far beyond the range of exp: the best row wins alone.
TEST_P(ResidualMixTest, far_scores_choose_one_row) {
  Streams in(random_, 2, 1, 16, 1);
  for (std::int64_t d = 0; d < 16; ++d) {
    in.query[d] = 50;
    in.bank[0].at(0, d) = -1;
    in.bank[1].at(0, d) = 2;
    in.stream.at(0, d) = -3;
  }
  const Rows y = in.mix(kernels(), {0}, team_);
  EXPECT_TRUE(near(
      y, [](auto, auto) { return 2.0; }, [](auto, auto) { return 0.0; }));
}

TEST_P(ResidualMixTest, rows_of_zeros_mix_to_zeros) {
  Streams in(random_, 1, 1, 9, 1);
  for (std::int64_t d = 0; d < 9; ++d) in.bank[0].at(0, d) = in.stream.at(0, d) = 0;
  const Rows y = in.mix(kernels(), {0}, team_);
  EXPECT_TRUE(near(
      y, [](auto, auto) { return 0.0; }, [](auto, auto) { return 0.0; }));
}

TEST_P(ResidualMixTest, a_row_has_the_same_bits_in_any_company) {
  for (std::int64_t bank_rows : {0, 1, 8}) {
    const Streams in(random_, bank_rows, 30, 700, 0.2);
    expect_rows_independent(random_, 30, [&](const auto& order, ThreadTeam& team) {
      return in.mix(kernels(), order, team);
    });
  }
}

}  // namespace
}  // namespace tandem::testing
