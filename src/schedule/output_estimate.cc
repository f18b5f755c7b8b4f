#include "schedule/output_estimate.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

constexpr double kBucketsPerOctave = 4;

// Bucket i holds lengths from here to the start of the next, 1 being the shortest.
double bucket_start(std::size_t bucket) {
  return std::exp2(static_cast<double>(bucket) / kBucketsPerOctave);
}

std::size_t bucket_of(std::int64_t tokens, std::size_t buckets) {
  const double octaves = std::log2(static_cast<double>(std::max<std::int64_t>(1, tokens)));
  return std::min(static_cast<std::size_t>(octaves * kBucketsPerOctave), buckets - 1);
}

}  // namespace

void OutputHistogram::Moments::add(double added, double from_tokens, double to_tokens) {
  const double mean = (from_tokens + to_tokens) / 2;
  const double width = to_tokens - from_tokens;
  weight += added;
  tokens += added * mean;
  squares += added * (mean * mean + width * width / 12);
}

void OutputHistogram::record(std::int64_t output_tokens) {
  for (double& weight : weights_) weight *= 1 - 1 / kMemoryOutputs;
  weights_[bucket_of(output_tokens, kBuckets)] += 1;
  for (std::size_t i = kBuckets; i-- > 0;) {
    from_bucket_[i] = from_bucket_[i + 1];
    from_bucket_[i].add(weights_[i], bucket_start(i), bucket_start(i + 1));
  }
}

OutputHistogram::Remaining OutputHistogram::after(std::int64_t written_tokens) const {
  const std::size_t bucket = bucket_of(written_tokens, kBuckets);
  const double start = bucket_start(bucket);
  const double end = bucket_start(bucket + 1);
  const auto written = static_cast<double>(written_tokens);
  Moments longer = from_bucket_[bucket + 1];
  if (const double from = std::max(start, written); from < end) {
    longer.add(weights_[bucket] * ((end - from) / (end - start)), from, end);
  }
  if (longer.weight == 0) return {};
  const double mean = longer.tokens / longer.weight;
  const double variance = longer.squares / longer.weight - mean * mean;
  return {.weight = longer.weight,
          .mean_tokens = mean - written,
          .deviation_tokens = std::sqrt(std::max(0.0, variance))};
}

std::int64_t OutputEstimate::remaining_tokens(OutputClass of, std::int64_t written_tokens,
                                              std::int64_t max_new_tokens) const {
  const std::int64_t left = max_new_tokens - written_tokens;
  if (left <= 0) return 0;
  const double guess = kGuessShare * static_cast<double>(std::min(left, kGuessLimitTokens));
  OutputHistogram::Remaining seen;
  if (const auto found = histograms_.find(of); found != histograms_.end()) {
    seen = found->second.after(written_tokens);
  }
  const double learnt = seen.mean_tokens + deviations_ * seen.deviation_tokens;
  const double mixed = (seen.weight * learnt + kGuessWeight * guess) / (seen.weight + kGuessWeight);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(mixed)), 1, left);
}

}  // namespace tandem
