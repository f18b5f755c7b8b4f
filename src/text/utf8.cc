#include "text/utf8.h"

#include <algorithm>

namespace tandem {
namespace {

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<signed char>(c) < 0; });
}

// Appends whole characters of `text` to `out`; returns the incomplete tail (empty if none).
std::string_view append_repaired(std::string_view text, std::string* out) {
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    if (step.kind == Utf8Kind::kIncomplete) break;
    out->append(step.kind == Utf8Kind::kCharacter ? text.substr(0, step.length)
                                                  : kReplacementCharacter);
    text.remove_prefix(step.length);
  }
  return text;
}

}  // namespace

Utf8Step next_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Utf8Kind::kCharacter, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Kind::kInvalid, 1, 0};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte is narrower after these leads: no overlong forms, surrogates or > U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code_point = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i, 0};
    const unsigned next = byte(i);
    if (next < (i == 1 ? low : 0x80u) || next > (i == 1 ? high : 0xBFu)) {
      return {Utf8Kind::kInvalid, i, 0};
    }
    code_point = code_point << 6 | (next & 0x3F);
  }
  return {Utf8Kind::kCharacter, length, code_point};
}

bool is_valid_utf8(std::string_view text) {
  if (is_ascii(text)) return true;
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    if (step.kind != Utf8Kind::kCharacter) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (!append_repaired(text, &out).empty()) out += kReplacementCharacter;
  return out;
}

bool is_python_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_blank(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    if (step.kind != Utf8Kind::kCharacter || !is_python_space(step.code_point)) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

std::string Utf8Stream::feed(std::string_view bytes) {
  std::string out;
  if (pending_.empty()) {
    pending_ = append_repaired(bytes, &out);
    return out;
  }
  pending_ += bytes;
  pending_ = std::string(append_repaired(pending_, &out));
  return out;
}

std::string Utf8Stream::flush() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacementCharacter);
}

}  // namespace tandem
