// Numbers of bytes as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem {

// "640 B", "27.00 KiB", "53.57 MiB": the largest of B, KiB, MiB, GiB, TiB that gives at least 1.
std::string byte_text(std::int64_t bytes);

// "16GiB", "1.5 GiB", "4096MiB", "2GB", "1073741824". KiB to TiB count in 1024s, KB to TB in 1000s;
// capitals do not matter. A part of a byte is dropped. Must be 1 byte to 1024 TiB.
Result<std::int64_t> parse_bytes(std::string_view text);

}  // namespace tandem
