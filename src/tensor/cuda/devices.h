// The CUDA devices of this machine. A plain C++ header: no CUDA type shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace tandem {

struct CudaDevice {
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  // Whether this build holds machine code that the device accepts.
  bool runs_this_build = false;
};

// In the driver's order, which is the order of device numbers. Empty where there is no device or no
// driver; kUnavailable if the driver is there and fails. Any thread; leaves the current device as
// it was.
Result<std::vector<CudaDevice>> cuda_devices();

}  // namespace tandem
