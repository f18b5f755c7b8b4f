// Turns CUDA's error codes into Status. A plain C++ header: a cudaError_t converts to int.
#pragma once

#include "base/status.h"

namespace tandem {

// kUnavailable with CUDA's own words, unless `error` is cudaSuccess. Clears the last error where
// the device still allows it.
Result<void> cuda_status(int error, const char* what);

// After a kernel launch: what the launch itself refused. Faults while it runs show at the next
// wait.
Result<void> cuda_launched(const char* what);

}  // namespace tandem
