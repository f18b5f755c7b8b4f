// Checks gradients against central differences in fp64; for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/philox.h"
#include "tensor/thread_team.h"
#include "train/rows.h"

namespace tandem::train {

// The bound on every operator's gradient.
inline constexpr double kGradientBound = 1e-6;

// A matrix that owns its values.
template <typename T>
struct Owned {
  std::int64_t rows = 0, columns = 0;
  std::vector<T> values;

  Owned() = default;
  Owned(std::int64_t r, std::int64_t c, T value = 0)
      : rows(r), columns(c), values(static_cast<std::size_t>(r * c), value) {}
  Rows<T> view() { return {values.data(), rows, columns, columns}; }
  ConstRows<T> view() const { return {values.data(), rows, columns, columns}; }
};

// Reproducible values, roughly normal, of the given spread.
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : seed_(seed) {}
  double next() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += philox_uniform(seed_, index_++);
    return sum;
  }
  template <typename T>
  std::vector<T> vector(std::int64_t size, double spread, double mean = 0) {
    std::vector<T> values(static_cast<std::size_t>(size));
    for (T& value : values) value = static_cast<T>(mean + spread * next());
    return values;
  }
  template <typename T>
  Owned<T> matrix(std::int64_t rows, std::int64_t columns, double spread, double mean = 0) {
    Owned<T> made(rows, columns);
    made.values = vector<T>(rows * columns, spread, mean);
    return made;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t index_ = 0;
};

// A loss with weights of its own for every output, so that no two outputs' gradients are alike.
inline double weighted_sum(const std::vector<double>& y, const std::vector<double>& weight) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weight[i];
  return sum;
}

// |analytic - numeric| over |numeric|, as vectors over all of `x`. `Value` may be float: then the
// step taken is what fp32 makes of it.
template <typename Value>
double gradient_error(std::vector<Value>& x, const std::vector<double>& analytic,
                      const std::function<double()>& loss, double step = 1e-4) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Value kept = x[i];
    // Richardson extrapolation over two steps: an error of order step^4.
    const auto slope = [&](double h) {
      x[i] = static_cast<Value>(kept + h);
      const double above = x[i], loss_above = loss();
      x[i] = static_cast<Value>(kept - h);
      const double below = x[i], loss_below = loss();
      x[i] = kept;
      return (loss_above - loss_below) / (above - below);
    };
    const double numeric = (4 * slope(step) - slope(2 * step)) / 3;
    difference += (numeric - analytic[i]) * (numeric - analytic[i]);
    size += numeric * numeric;
  }
  return std::sqrt(difference / size);
}

template <typename Value>
void expect_gradient(const std::string& name, std::vector<Value>& x,
                     const std::vector<double>& analytic, const std::function<double()>& loss,
                     double step = 1e-4) {
  ASSERT_EQ(x.size(), analytic.size()) << name;
  const double error = gradient_error(x, analytic, loss, step);
  EXPECT_LE(error, kGradientBound) << name;
}

// |a - b| / |b|
template <typename A, typename B>
double relative_error(const std::vector<A>& a, const std::vector<B>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / size);
}

}  // namespace tandem::train
