#include "model/input.h"

#include <fmt/ranges.h>

#include <fstream>

namespace tandem {

Result<std::string> read_small_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return fail(StatusCode::kNotFound, "{}: no such file", path.string());
  }
  if (!std::filesystem::is_regular_file(path, error)) {
    return invalid("{}: not a regular file", path.string());
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size > max_bytes) {
    return invalid("{}: {} bytes; expected at most {}", path.string(), size, max_bytes);
  }
  std::string text(error ? 0 : static_cast<std::size_t>(size), '\0');
  std::ifstream file(path, std::ios::binary);
  if (error || !file.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return invalid("{}: cannot be read", path.string());
  }
  return text;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kHead = 120;
  constexpr std::size_t kTail = 40;
  std::string shown(text);
  if (text.size() > kHead + kTail) {
    shown = fmt::format("{}...{}", text.substr(0, kHead), text.substr(text.size() - kTail));
  }
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return "'" + shown + "'";
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace tandem
