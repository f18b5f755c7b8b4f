// Bracketed character classes and escapes, as regular expressions and EBNF share them.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "text/grammar/code_points.h"

namespace tandem::grammar {

// Reads UTF-8 text character by character. The text must outlive it.
class CharacterReader {
 public:
  explicit CharacterReader(std::string_view text) : text_(text) {}

  bool done() const { return at_ >= text_.size(); }
  // The byte at the front, 0 at the end.
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool looking_at(std::string_view text) const { return text_.substr(at_).starts_with(text); }
  bool skip(std::string_view text) {
    if (!looking_at(text)) return false;
    at_ += text.size();
    return true;
  }
  // A whole character; the text must be valid UTF-8 and not at its end.
  char32_t next();
  std::size_t position() const { return at_; }
  void advance(std::size_t bytes) { at_ += bytes; }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

// What follows a backslash, which was read: a class such as \d, or a single character.
Result<CodePointSet> read_escape(CharacterReader* reader);
// A class after its "[", up to and including "]".
Result<CodePointSet> read_class(CharacterReader* reader);
// The numbers of "{n}", "{n,}" or "{n,m}" after the "{", up to and including "}".
struct Counts {
  std::int64_t min;
  std::int64_t max;  // RuleBook::kUnbounded
};
Result<Counts> read_counts(CharacterReader* reader);

}  // namespace tandem::grammar
