#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "schedule/output_estimate.h"

namespace tandem {
namespace {

rc::Gen<std::vector<std::int64_t>> any_lengths() {
  return rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::resize(100, rc::gen::inRange<std::int64_t>(1, 20'000)));
}

RC_GTEST_PROP(OutputEstimatePropertyTest, lies_within_what_may_still_come, ()) {
  OutputEstimate estimate(*rc::gen::element(0.0, 1.0, 3.0));
  for (const std::int64_t length : *any_lengths()) estimate.record({}, length);
  const auto limit = *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(1, 30'000));
  const auto written = *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(0, limit));
  const std::int64_t tokens = estimate.remaining_tokens({}, written, limit);
  RC_ASSERT(tokens >= 1);
  RC_ASSERT(tokens <= limit - written);
}

// Against the outputs themselves: a bucket is a quarter octave wide, so a length is known to 19 %.
RC_GTEST_PROP(OutputEstimatePropertyTest, the_mean_after_some_tokens_agrees_with_the_outputs, ()) {
  const auto lengths = *rc::gen::nonEmpty(any_lengths());
  const auto written = *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(0, 15'000));
  OutputHistogram histogram;
  double weight = 0;
  double longer = 0;
  double sum = 0;
  for (const std::int64_t length : lengths) {
    histogram.record(length);
    // Those about as long as `written` may fall on either side.
    const auto tokens = static_cast<double>(length);
    const auto cut = static_cast<double>(written);
    if (cut > 0 && tokens > cut / 1.2 && tokens < cut * 1.2) RC_DISCARD("close to the cut");
    const double fade = 1 - 1 / OutputHistogram::kMemoryOutputs;
    weight = weight * fade + 1;
    longer *= fade;
    sum *= fade;
    if (length > written) {
      longer += 1;
      sum += tokens;
    }
  }
  RC_ASSERT(std::abs(histogram.after(0).weight - weight) < 1e-6 * weight);
  const auto remaining = histogram.after(written);
  RC_ASSERT(std::abs(remaining.weight - longer) < 1e-6 * weight);
  if (longer == 0) return;
  const double mean = sum / longer;
  RC_ASSERT(std::abs(remaining.mean_tokens + static_cast<double>(written) - mean) <
            0.19 * mean + 1);
}

}  // namespace
}  // namespace tandem
