#include "schedule/output_estimate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem {
namespace {

constexpr OutputClass kChat{1};

OutputHistogram of_lengths(std::initializer_list<std::int64_t> lengths, int times) {
  OutputHistogram histogram;
  for (int i = 0; i < times; ++i) {
    for (const std::int64_t length : lengths) histogram.record(length);
  }
  return histogram;
}

TEST(OutputHistogramTest, the_mean_is_right_within_the_width_of_a_bucket) {
  const auto remaining = of_lengths({100, 300}, 500).after(0);
  EXPECT_NEAR(remaining.mean_tokens, 200, 200 * 0.19);
  EXPECT_NEAR(remaining.deviation_tokens, 100, 100 * 0.19);
}

TEST(OutputHistogramTest, what_is_written_rules_out_the_shorter_outputs) {
  const auto histogram = of_lengths({100, 1000}, 500);
  const auto remaining = histogram.after(200);
  EXPECT_NEAR(remaining.mean_tokens, 800, 1000 * 0.19);
  EXPECT_NEAR(remaining.weight, histogram.after(0).weight / 2, 1);
}

TEST(OutputHistogramTest, nothing_is_known_beyond_the_longest_output) {
  const auto remaining = of_lengths({100}, 50).after(130);
  EXPECT_EQ(remaining.weight, 0);
  EXPECT_EQ(remaining.mean_tokens, 0);
}

TEST(OutputHistogramTest, inside_a_bucket_the_part_behind_counts) {
  const auto histogram = of_lengths({100}, 50);  // its bucket is [90.5, 107.6)
  const auto remaining = histogram.after(100);
  EXPECT_NEAR(remaining.mean_tokens, 3.8, 0.1);
  EXPECT_NEAR(remaining.weight / histogram.after(0).weight, 7.6 / 17.1, 0.01);
  EXPECT_NEAR(histogram.after(0).deviation_tokens, 17.1 / std::sqrt(12), 0.1);
}

TEST(OutputHistogramTest, old_outputs_fade) {
  OutputHistogram histogram;
  for (int i = 0; i < 2000; ++i) histogram.record(2000);
  for (int i = 0; i < 3000; ++i) histogram.record(100);
  EXPECT_LT(histogram.after(0).mean_tokens, 250);
  EXPECT_GT(histogram.after(0).mean_tokens, 120);
  EXPECT_LE(histogram.after(0).weight, OutputHistogram::kMemoryOutputs);
}

TEST(OutputHistogramTest, any_length_has_a_bucket) {
  for (const std::int64_t length : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 40}) {
    OutputHistogram histogram;
    histogram.record(length);
    EXPECT_NEAR(histogram.after(0).weight, 1, 1e-9) << length;
  }
}

TEST(OutputEstimateTest, without_outputs_a_share_of_what_may_come) {
  const OutputEstimate estimate(1);
  EXPECT_EQ(estimate.remaining_tokens(kChat, 0, 1000), 700);
  EXPECT_EQ(estimate.remaining_tokens(kChat, 900, 1000), 70);
  EXPECT_EQ(estimate.remaining_tokens(kChat, 0, 100'000), 2868);  // 0.7 * 4096
}

TEST(OutputEstimateTest, outputs_take_the_place_of_the_guess) {
  OutputEstimate estimate(0);
  for (int i = 0; i < 16; ++i) estimate.record(kChat, 100);
  EXPECT_NEAR(static_cast<double>(estimate.remaining_tokens(kChat, 0, 4096)), (100 + 2868) / 2, 30);
  for (int i = 0; i < 3000; ++i) estimate.record(kChat, 100);
  EXPECT_NEAR(static_cast<double>(estimate.remaining_tokens(kChat, 0, 4096)), 146, 10);
}

TEST(OutputEstimateTest, deviations_are_set_aside_on_top) {
  OutputEstimate careful(2);
  OutputEstimate bold(0);
  for (int i = 0; i < 5000; ++i) {
    careful.record(kChat, i % 2 == 0 ? 100 : 300);
    bold.record(kChat, i % 2 == 0 ? 100 : 300);
  }
  EXPECT_NEAR(static_cast<double>(careful.remaining_tokens(kChat, 0, 4096) -
                                  bold.remaining_tokens(kChat, 0, 4096)),
              200, 30);
}

TEST(OutputEstimateTest, is_held_by_the_limit) {
  OutputEstimate estimate(3);
  for (int i = 0; i < 1000; ++i) estimate.record(kChat, 5000);
  EXPECT_EQ(estimate.remaining_tokens(kChat, 10, 50), 40);
  EXPECT_EQ(estimate.remaining_tokens(kChat, 50, 50), 0);
  EXPECT_EQ(estimate.remaining_tokens(kChat, 60, 50), 0);
}

TEST(OutputEstimateTest, classes_do_not_mix) {
  OutputEstimate estimate(1);
  for (int i = 0; i < 1000; ++i) estimate.record(kChat, 10);
  EXPECT_EQ(estimate.remaining_tokens(OutputClass{2}, 0, 1000), 700);
}

}  // namespace
}  // namespace tandem
