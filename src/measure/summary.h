// Repeated measurements in three numbers.
#pragma once

#include <algorithm>
#include <vector>

namespace tandem::measure {

struct Summary {
  double median = 0;  // of an even number, the mean of the two in the middle
  double min = 0;
  double max = 0;
};

// Of at least one sample.
inline Summary summarise(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  const double median =
      samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  return {median, samples.front(), samples.back()};
}

// The rates, units per second, of something that was measured in seconds.
inline Summary rates(double units, const Summary& seconds) {
  return {units / seconds.median, units / seconds.max, units / seconds.min};
}

}  // namespace tandem::measure
