#include "loadgen/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem::loadgen {

double percentile(std::span<const double> sorted, double share) {
  const auto count = static_cast<double>(sorted.size());
  // 0.9 * 10 may come out above 9: what rounding adds is far below one rank.
  const double rank = std::ceil(share * count - 1e-9 * count);
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

Distribution distribution(std::span<const double> sorted) {
  if (sorted.empty()) return {};
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  return {.count = sorted.size(),
          .mean = sum / static_cast<double>(sorted.size()),
          .p50 = percentile(sorted, 0.5),
          .p90 = percentile(sorted, 0.9),
          .p99 = percentile(sorted, 0.99),
          .max = sorted.back()};
}

std::vector<CurvePoint> cumulative_curve(std::span<const double> sorted, std::size_t points) {
  std::vector<CurvePoint> curve;
  const std::size_t count = sorted.size();
  const std::size_t drawn = std::min(count, points);
  for (std::size_t i = 0; i < drawn; ++i) {
    const std::size_t index = drawn == 1 ? 0 : i * (count - 1) / (drawn - 1);
    curve.push_back({sorted[index], static_cast<double>(index + 1) / static_cast<double>(count)});
  }
  return curve;
}

}  // namespace tandem::loadgen
