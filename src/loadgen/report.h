// What a load run came to: for people, for programs, and as a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/load_run.h"
#include "loadgen/statistics.h"

namespace tandem::loadgen {

// One thing that was measured. Milliseconds.
struct Measure {
  std::string name;   // for people
  std::string field;  // for programs
  std::vector<double> sorted;
};

struct ErrorCount {
  std::string kind;
  std::int64_t count = 0;
  std::string detail;  // of the first
};

struct LoadReport {
  std::string target;
  std::string load;  // what was asked and how fast, in words
  std::int64_t requests = 0;
  std::int64_t answered = 0;
  double wall_s = 0;
  bool interrupted = false;
  // Of answers that came whole. From when a request was due: first token, whole answer. Between
  // pieces as they arrive, of one token or several; and per output token after the first.
  std::vector<Measure> measures;
  std::vector<ErrorCount> errors;  // most frequent first
  // Sums over answers that came whole. -1: the server did not say for every one.
  std::int64_t prompt_tokens = -1;
  std::int64_t completion_tokens = -1;
  std::int64_t cached_tokens = -1;
  std::int64_t pieces = 0;
  Distribution clock_lag_ms;
  Distribution send_lag_ms;  // from when requests were due until they were sent
};

LoadReport summarise(const LoadRunResult& result, std::string target, std::string load);

std::string report_text(const LoadReport& report);
// One object; times in milliseconds, null for what was not measured.
std::string report_json(const LoadReport& report);
// A picture of its own: cumulative curves with their percentiles, for light and dark pages.
std::string report_svg(const LoadReport& report);

}  // namespace tandem::loadgen
