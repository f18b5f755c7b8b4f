#include "train/run/metrics_file.h"

#include <fmt/core.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "train/files.h"

namespace tandem::train {

std::string metrics_line(const char* kind, std::int64_t step, const std::vector<Metric>& metrics) {
  nlohmann::ordered_json json;
  json["kind"] = kind;
  json["step"] = step;
  for (const auto& [name, value] : metrics) {
    json[name] = std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr;
  }
  return json.dump();
}

Result<void> MetricsFile::rewind_to(std::int64_t first_step) {
  std::ifstream file(path_);
  if (!file) return {};
  std::string kept, line;
  while (std::getline(file, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    // What a killed run left of its last line is no JSON.
    if (!json.is_object() || json.value("step", first_step) >= first_step) continue;
    kept += line + "\n";
  }
  return replace_text_file(path_, kept);
}

Result<void> MetricsFile::append(const std::string& line) {
  std::ofstream file(path_, std::ios::app);
  file << line << "\n" << std::flush;
  if (!file) return invalid("{}: cannot be written", path_.string());
  return {};
}

}  // namespace tandem::train
