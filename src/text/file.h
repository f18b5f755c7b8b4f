// Reading a whole small file.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"

namespace tandem {

// The content of `file`; kNotFound if it cannot be opened, with the path in the message.
Result<std::string> read_text_file(const std::filesystem::path& file);

}  // namespace tandem
