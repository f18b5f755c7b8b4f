// Writing files so that a reader finds the old one or the new one, never half of it.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "base/status.h"

namespace tandem::train {

// Has `write` make a file beside `path`, flushes it to the disk and renames it to `path`.
Result<void> replace_file(const std::filesystem::path& path,
                          const std::function<Result<void>(const std::filesystem::path&)>& write);
Result<void> replace_text_file(const std::filesystem::path& path, std::string_view text);

// Flushes a file or a folder's list of names to the disk.
Result<void> flush_to_disk(const std::filesystem::path& path);

}  // namespace tandem::train
