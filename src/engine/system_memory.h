// How much memory this machine lends the process.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/status.h"

namespace tandem {

struct SystemMemory {
  std::int64_t total_bytes = 0;
  // Not in use. Cached files count as available: the kernel drops them when asked.
  std::int64_t available_bytes = 0;
};

// The machine's (/proc/meminfo), or what a limit of the control group at the root of `root` leaves
// if that is less (a container's). kInternal where the kernel tells nothing. `root` stands for /.
Result<SystemMemory> read_system_memory(const std::filesystem::path& root = "/");

}  // namespace tandem
