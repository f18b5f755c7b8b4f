// Metrics of a run, a line of JSON a step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tandem::train {

using Metric = std::pair<const char*, double>;

// {"kind":"...","step":N,...}. Numbers that are not finite become null.
std::string metrics_line(const char* kind, std::int64_t step, const std::vector<Metric>& metrics);

// Appends lines, each flushed.
class MetricsFile {
 public:
  explicit MetricsFile(std::filesystem::path path) : path_(std::move(path)) {}

  // Drops lines of steps from `first_step` on: a resumed run writes them again. No file is fine.
  Result<void> rewind_to(std::int64_t first_step);
  Result<void> append(const std::string& line);

 private:
  std::filesystem::path path_;
};

}  // namespace tandem::train
