// What a run of `tandem bench decode` or `prefill` came to: for people and for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/machine.h"
#include "measure/step_bench.h"

namespace tandem::measure {

// Where and on what a measurement was made.
struct Setting {
  std::string model;         // as the user named it
  std::string architecture;  // as the configuration names it
  std::string precision;
  std::string backend;
  int threads = 0;
  std::string processor;
  std::string instruction_set;
  MachineRates machine;
};

struct StepReport {
  std::string bench;  // "decode" or "prefill"
  Setting setting;
  std::int64_t weight_bytes = 0;  // in memory, as `tandem plan` counts them
  std::vector<StepCase> cases;
};

// The least time that the machine's rates allow for some work: the longer one of reading and
// computing.
double bound_s(const Work& work, const MachineRates& machine);

// Two lines: what was measured, and what the machine does at best.
std::string setting_text(const std::string& bench, const Setting& setting);

std::string report_text(const StepReport& report);
// One object; seconds, bytes, FLOP, and shares of the machine's rates from 0 up.
std::string report_json(const StepReport& report);

}  // namespace tandem::measure
