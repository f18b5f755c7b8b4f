#include "loadgen/statistics.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace tandem::loadgen {
namespace {

TEST(Percentile, is_the_smallest_sample_that_covers_the_share) {
  const std::vector<double> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(percentile(ten, 0.5), 5);
  EXPECT_EQ(percentile(ten, 0.9), 9);
  EXPECT_EQ(percentile(ten, 0.99), 10);
  EXPECT_EQ(percentile(ten, 0.001), 1);
  EXPECT_EQ(percentile(std::vector<double>{7}, 0.5), 7);
}

TEST(Percentile, covers_its_share_of_any_samples) {
  rc::check([](std::vector<double> samples) {
    RC_PRE(!samples.empty());
    std::sort(samples.begin(), samples.end());
    for (const int percent : {1, 10, 50, 90, 99, 100}) {
      const double value = percentile(samples, percent / 100.0);
      const auto up_to = std::upper_bound(samples.begin(), samples.end(), value);
      const auto below = std::lower_bound(samples.begin(), samples.end(), value);
      const auto count = static_cast<std::int64_t>(samples.size());
      RC_ASSERT((up_to - samples.begin()) * 100 >= percent * count);
      RC_ASSERT((below - samples.begin()) * 100 < percent * count);
    }
  });
}

TEST(Distribution, of_nothing_is_nothing) {
  const Distribution none = distribution({});
  EXPECT_EQ(none.count, 0u);
  EXPECT_EQ(none.max, 0);
}

TEST(Distribution, has_mean_and_maximum) {
  const Distribution d = distribution(std::vector<double>{1, 2, 6});
  EXPECT_EQ(d.count, 3u);
  EXPECT_EQ(d.mean, 3);
  EXPECT_EQ(d.p50, 2);
  EXPECT_EQ(d.max, 6);
}

TEST(CumulativeCurve, rises_from_the_first_sample_to_the_last) {
  std::vector<double> samples;
  for (int i = 0; i < 1000; ++i) samples.push_back(i);
  const auto curve = cumulative_curve(samples, 50);
  ASSERT_EQ(curve.size(), 50u);
  EXPECT_EQ(curve.front().value, 0);
  EXPECT_EQ(curve.back().value, 999);
  EXPECT_EQ(curve.back().share, 1);
  for (std::size_t i = 1; i < curve.size(); ++i) {
    EXPECT_GT(curve[i].value, curve[i - 1].value);
    EXPECT_GT(curve[i].share, curve[i - 1].share);
  }
}

TEST(CumulativeCurve, of_one_sample_is_a_point) {
  const auto curve = cumulative_curve(std::vector<double>{4}, 50);
  ASSERT_EQ(curve.size(), 1u);
  EXPECT_EQ(curve[0].share, 1);
}

}  // namespace
}  // namespace tandem::loadgen
