#include "loadgen/arrivals.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::loadgen {
namespace {

std::vector<double> gaps(double rate, std::uint64_t seed, int count) {
  PoissonArrivals arrivals(rate, seed);
  std::vector<double> out;
  double last = 0;
  for (int i = 0; i < count; ++i) {
    const double at = arrivals.next_s();
    out.push_back(at - last);
    last = at;
  }
  return out;
}

// Of 20,000 gaps: mean and standard deviation are 1/rate within 4 standard errors, and the share
// longer than the mean is 1/e. Evenly spaced arrivals would fail the second and the third.
TEST(PoissonArrivals, have_exponential_gaps_of_the_asked_rate) {
  constexpr int kCount = 20'000;
  constexpr double kRate = 50;
  double sum = 0, squares = 0;
  int longer = 0;
  for (const double gap : gaps(kRate, 7, kCount)) {
    EXPECT_GE(gap, 0);
    sum += gap * kRate;
    squares += gap * kRate * gap * kRate;
    longer += gap * kRate > 1 ? 1 : 0;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 1, 0.03);
  EXPECT_NEAR(std::sqrt(squares / kCount - mean * mean), 1, 0.06);
  EXPECT_NEAR(longer / static_cast<double>(kCount), 0.3679, 0.014);
}

TEST(PoissonArrivals, repeat_with_their_seed_only) {
  EXPECT_EQ(gaps(3, 1, 100), gaps(3, 1, 100));
  EXPECT_NE(gaps(3, 1, 100), gaps(3, 2, 100));
}

}  // namespace
}  // namespace tandem::loadgen
