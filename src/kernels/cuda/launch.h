// What a launch has to ask of the current device first. Cheap: answers are the driver's cached
// ones.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace tandem::cuda {

Result<int> multiprocessor_count();
// Lets `kernel` have more than 48 KiB of dynamic shared memory a block.
Result<void> allow_shared_memory(const void* kernel, std::size_t bytes);

}  // namespace tandem::cuda
