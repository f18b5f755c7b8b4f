#include "engine/system_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace tandem {
namespace {

// The number behind `name` in lines of "name 123" or "name: 123 kB".
std::optional<std::int64_t> number_after(const std::filesystem::path& path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  std::int64_t value = 0;
  while (file >> word) {
    if (word == name && file >> value) return value;
    file.clear();
    file.ignore(1 << 16, '\n');
  }
  return std::nullopt;
}

// A file of one number; absent too where it says "max".
std::optional<std::int64_t> number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// One version's files of a control group.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* statistics;
  const char* cached;  // file pages among the usage, by their name in the statistics
};
constexpr GroupFiles kGroups[] = {
    {"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current", "sys/fs/cgroup/memory.stat",
     "file"},
    {"sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes",
     "sys/fs/cgroup/memory/memory.stat", "total_cache"},
};

}  // namespace

Result<SystemMemory> read_system_memory(const std::filesystem::path& root) {
  const auto meminfo = root / "proc/meminfo";
  const auto total_kib = number_after(meminfo, "MemTotal:");
  const auto available_kib = number_after(meminfo, "MemAvailable:");
  if (!total_kib || !available_kib) {
    return fail(StatusCode::kInternal, "{} does not say how much memory there is",
                meminfo.string());
  }
  SystemMemory memory = {*total_kib * 1024, *available_kib * 1024};
  for (const GroupFiles& group : kGroups) {
    const auto limit = number_in(root / group.limit);
    if (!limit) continue;
    const std::int64_t used = number_in(root / group.usage).value_or(0) -
                              number_after(root / group.statistics, group.cached).value_or(0);
    memory.total_bytes = std::min(memory.total_bytes, *limit);
    memory.available_bytes = std::clamp<std::int64_t>(*limit - std::max<std::int64_t>(used, 0), 0,
                                                      memory.available_bytes);
  }
  return memory;
}

}  // namespace tandem
