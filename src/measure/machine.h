// What this machine can do at best, measured: the bounds that a step's time is held against.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "measure/summary.h"
#include "tensor/thread_team.h"

namespace tandem::measure {

struct MachineRates {
  Summary read_bytes_per_s;  // all threads stream through memory that no cache holds
  Summary fma_flop_per_s;    // all threads multiply and add fp32 in registers
};

// "AMD EPYC 7B13", as the system tells; "unknown processor" if it does not.
std::string processor_name();

// The instruction set that the kernels use here, as Highway names it: "AVX2".
std::string instruction_set_name();

// Measures before and after the steps that are held against the rates: a machine that is shared
// may be slower at one end of a run than at the other. Single-threaded outside of its team.
class MachineProbe {
 public:
  explicit MachineProbe(ThreadTeam& team) : team_(team) {}

  // Takes about a second. Borrows a buffer of up to 1 GiB: twice the last-level cache, but at most
  // a quarter of the free memory; kResourceExhausted if there is none.
  Result<void> measure();

  // Of all measurements so far, at least one.
  MachineRates rates() const;

 private:
  Result<void> measure_reading();
  void measure_multiply_add();

  ThreadTeam& team_;
  std::vector<double> read_bytes_per_s_;
  std::vector<double> fma_flop_per_s_;
};

}  // namespace tandem::measure
