// Reading small input files, and showing pieces of hostile input in one-line messages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// The whole of a regular file; an error that names it if it is absent, unreadable or over
// `max_bytes`.
Result<std::string> read_small_file(const std::filesystem::path& path, std::uint64_t max_bytes);

// 'text' on one line: control characters become '?', a long text is cut in the middle.
std::string in_quotes(std::string_view text);

// "[96, 1, 4]"
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace tandem
