#include "base/byte_size.h"

#include <array>
#include <cctype>
#include <charconv>

namespace tandem {
namespace {

constexpr double kMaxBytes = 0x1p50;

struct Unit {
  std::string_view name;  // in small letters
  double bytes;
};
constexpr std::array kUnits = {Unit{"", 1},         Unit{"b", 1},        Unit{"kib", 0x1p10},
                               Unit{"mib", 0x1p20}, Unit{"gib", 0x1p30}, Unit{"tib", 0x1p40},
                               Unit{"kb", 1e3},     Unit{"mb", 1e6},     Unit{"gb", 1e9},
                               Unit{"tb", 1e12}};

const Unit* find_unit(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  std::string name(text);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Unit& unit : kUnits) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

}  // namespace

std::string byte_text(std::int64_t bytes) {
  constexpr std::array kNames = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kNames[unit]);
}

Result<std::int64_t> parse_bytes(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const auto* unit =
      error == std::errc() ? find_unit({next, static_cast<std::size_t>(end - next)}) : nullptr;
  if (unit == nullptr) return invalid("'{}' is no size; expected one such as 16GiB or 2GB", text);
  const double bytes = value * unit->bytes;
  // Also refuses a value that is no number.
  if (!(bytes >= 1 && bytes <= kMaxBytes)) {
    return invalid("{} is out of range; expected 1 byte to 1024TiB", text);
  }
  return static_cast<std::int64_t>(bytes);
}

}  // namespace tandem
