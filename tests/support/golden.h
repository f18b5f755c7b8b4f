// Golden tensors (tests/data/golden/README.md) and how closely a tensor matches one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "model/safetensors.h"
#include "support/model_runner.h"

namespace tandem {

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& relative_path) {
    auto opened = SafetensorsFile::open(source_path(relative_path));
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      std::abort();
    }
    file_ = *std::move(opened);
  }

  bool has(const std::string& name) const { return file_->tensors().contains(name); }
  std::span<const float> floats(const std::string& name) const { return typed<float>(name); }
  std::vector<TokenId> ids(const std::string& name) const {
    const auto values = typed<std::int32_t>(name);
    return {values.begin(), values.end()};
  }
  const std::vector<std::int64_t>& shape(const std::string& name) const {
    return file_->tensors().at(name).shape;
  }

 private:
  template <typename T>
  std::span<const T> typed(const std::string& name) const {
    const auto bytes = file_->bytes(file_->tensors().at(name));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  std::unique_ptr<SafetensorsFile> file_;
};

struct Difference {
  double max_abs = 0;
  double mean_abs = 0;
  double median_abs = 0;
  double golden_std = 0;

  double max_ratio() const { return max_abs / golden_std; }
  double mean_ratio() const { return mean_abs / golden_std; }
};

inline Difference compare(std::span<const float> got, std::span<const float> golden) {
  EXPECT_EQ(got.size(), golden.size());
  const auto n = static_cast<double>(golden.size());
  double sum = 0, squares = 0;
  Difference d;
  std::vector<double> errors;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    const double error = std::fabs(static_cast<double>(got[i]) - static_cast<double>(golden[i]));
    // A NaN must not slip through a comparison.
    d.max_abs = std::isnan(error) ? INFINITY : std::max(d.max_abs, error);
    d.mean_abs += error / n;
    errors.push_back(error);
    sum += golden[i];
    squares += static_cast<double>(golden[i]) * static_cast<double>(golden[i]);
  }
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  d.median_abs = *middle;
  d.golden_std = std::sqrt(std::max(squares / n - (sum / n) * (sum / n), 0.0));
  return d;
}

}  // namespace tandem
