// How many tokens a request will still write, from what others wrote.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "base/ids.h"

namespace tandem {

// Requests whose outputs are alike, such as those of one tenant on one route. Numbered by the
// caller.
using OutputClass = Id<struct OutputClassTag>;

// Output lengths of one class: a histogram of quarter octaves in which the past fades. Not
// thread-safe.
class OutputHistogram {
 public:
  // After this many outputs, an earlier one counts 1/e.
  static constexpr double kMemoryOutputs = 1000;

  void record(std::int64_t output_tokens);

  struct Remaining {
    double weight = 0;  // outputs seen that were longer than what is written so far, faded
    double mean_tokens = 0;
    double deviation_tokens = 0;  // standard deviation
  };
  // Of the outputs longer than `written_tokens`, what came after. All 0 if there were none. O(1).
  Remaining after(std::int64_t written_tokens) const;

 private:
  static constexpr std::size_t kBuckets = 84;  // up to 2^21 tokens; the last holds what is longer
  // Sums over lengths, each weighted.
  struct Moments {
    double weight = 0;
    double tokens = 0;
    double squares = 0;

    // Adds `added` outputs spread evenly between two lengths.
    void add(double added, double from_tokens, double to_tokens);
  };

  std::array<double, kBuckets> weights_ = {};
  std::array<Moments, kBuckets + 1> from_bucket_ = {};  // of a bucket and all behind it
};

// Tokens to set aside for a running request: mean + `deviations` standard deviations of what
// remains, mixed with a careful guess that loses weight as outputs come in. Not thread-safe.
class OutputEstimate {
 public:
  // The guess: this share of what may still come, of at most this many tokens.
  static constexpr double kGuessShare = 0.7;
  static constexpr std::int64_t kGuessLimitTokens = 4096;
  static constexpr double kGuessWeight = 16;  // outputs

  // `deviations`: 0 sets the mean aside, more is safer and admits fewer.
  explicit OutputEstimate(double deviations) : deviations_(deviations) {}

  // An output ended by itself or at its limit; aborted ones say nothing and are not told.
  void record(OutputClass of, std::int64_t output_tokens) { histograms_[of].record(output_tokens); }

  // Between 1 and max_new_tokens - written_tokens; 0 if nothing may follow.
  std::int64_t remaining_tokens(OutputClass of, std::int64_t written_tokens,
                                std::int64_t max_new_tokens) const;

 private:
  const double deviations_;
  std::map<OutputClass, OutputHistogram> histograms_;
};

}  // namespace tandem
