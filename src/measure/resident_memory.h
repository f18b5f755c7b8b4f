// How much memory this process holds.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace tandem::measure {

// Pages in memory now, those of mapped files among them (VmRSS); 0 where the kernel tells nothing.
inline std::int64_t resident_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

}  // namespace tandem::measure
