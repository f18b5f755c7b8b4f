// UTF-8: decoding, repair of invalid bytes, incremental assembly of whole characters.
//
// Invalid bytes become U+FFFD, one per maximal invalid subpart, as in the Unicode standard, WHATWG
// decoders and Python's errors="replace".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// What the bytes at the front of a text are.
enum class Utf8Kind {
  kCharacter,   // a complete code point of `length` bytes
  kInvalid,     // `length` bytes that no continuation can make valid: one maximal subpart
  kIncomplete,  // a valid beginning of a code point that the text ends in
};

struct Utf8Step {
  Utf8Kind kind;
  std::size_t length;   // bytes, >= 1
  char32_t code_point;  // valid for kCharacter only
};

// Examines the front of `text`, which must not be empty.
Utf8Step next_utf8(std::string_view text);

bool is_valid_utf8(std::string_view text);

// `text` with every maximal invalid subpart replaced by U+FFFD (also one cut off at the end).
std::string repair_utf8(std::string_view text);

// Python's str.isspace: Unicode White_Space and U+001C..U+001F.
bool is_python_space(char32_t code_point);

// True if `text` has no character but Python whitespace (or none at all).
bool is_blank(std::string_view text);

// Turns a stream of byte runs into whole characters; holds back at most three bytes, the valid
// beginning of a character that is not complete. Single owner.
class Utf8Stream {
 public:
  // The characters completed by `bytes`, invalid subparts replaced.
  std::string feed(std::string_view bytes);
  // End of the stream: U+FFFD if a character was cut off, else nothing.
  std::string flush();

 private:
  std::string pending_;
};

}  // namespace tandem
