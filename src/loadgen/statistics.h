// What many measurements come to.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tandem::loadgen {

// Percentiles by nearest rank: each is a value that was measured. All 0 without samples.
struct Distribution {
  std::size_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

// The smallest of the samples, sorted in ascending order, that at least `share` of them do not
// exceed. `share` in (0, 1]; at least one sample.
double percentile(std::span<const double> sorted, double share);

Distribution distribution(std::span<const double> sorted);

// The share of samples up to a value, as a curve that can be drawn: at most `points` of (value,
// share), ascending, the first and the last sample among them. At least two points.
struct CurvePoint {
  double value = 0;
  double share = 0;  // in (0, 1]
};
std::vector<CurvePoint> cumulative_curve(std::span<const double> sorted, std::size_t points);

}  // namespace tandem::loadgen
