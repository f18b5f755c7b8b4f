// What this machine can do at best, measured: the bounds that a step's time is held against.
#pragma once

#include <cstdint>
#include <string>

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

// Takes about a second. Borrows a buffer of up to 1 GiB: twice the last-level cache, but at most a
// quarter of the available memory; kResourceExhausted if there is none.
Result<MachineRates> measure_machine(ThreadTeam& team);

}  // namespace tandem::measure
