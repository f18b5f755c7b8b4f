#include "text/grammar/character_class.h"

#include <vector>

#include "text/utf8.h"

namespace tandem::grammar {
namespace {

using Ranges = std::vector<CodePointRange>;

tl::unexpected<Status> error_at(const CharacterReader& reader, std::string_view what) {
  return invalid("at byte {}: {}", reader.position(), what);
}

CodePointSet digits() { return CodePointSet({{U'0', U'9'}}); }
CodePointSet word() {
  return CodePointSet({{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}});
}
CodePointSet space() {
  return CodePointSet({{0x09, 0x0D},
                       {0x20, 0x20},
                       {0xA0, 0xA0},
                       {0x1680, 0x1680},
                       {0x2000, 0x200A},
                       {0x2028, 0x2029},
                       {0x202F, 0x202F},
                       {0x205F, 0x205F},
                       {0x3000, 0x3000},
                       {0xFEFF, 0xFEFF}});
}
CodePointSet one(char32_t code) { return CodePointSet({{code, code}}); }

Result<char32_t> read_hex(CharacterReader* reader, int count) {
  char32_t value = 0;
  for (int i = 0; i < count; ++i) {
    const char c = reader->peek();
    const bool digit = c >= '0' && c <= '9';
    const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (!digit && !letter) return error_at(*reader, "a hexadecimal digit is missing");
    value = value * 16 + static_cast<char32_t>(digit ? c - '0' : (c | 0x20) - 'a' + 10);
    reader->advance(1);
  }
  return value;
}

// After "\u": four digits, a surrogate pair, or digits in braces.
Result<char32_t> read_unicode(CharacterReader* reader) {
  char32_t code = 0;
  if (reader->skip("{")) {
    int length = 0;
    while (reader->peek(static_cast<std::size_t>(length)) != '}' && length < 7) ++length;
    code = TRY(read_hex(reader, length));
    if (length == 0 || !reader->skip("}")) return error_at(*reader, "\"}\" is missing");
  } else {
    code = TRY(read_hex(reader, 4));
    if (code >= 0xD800 && code <= 0xDBFF && reader->skip("\\u")) {
      const char32_t low = TRY(read_hex(reader, 4));
      if (low < 0xDC00 || low > 0xDFFF) return error_at(*reader, "half a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
  }
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code > 0x10FFFF || is_surrogate) return error_at(*reader, "no such character");
  return code;
}

// A member of a class: a single character, or a set that cannot begin a range.
Result<CodePointSet> read_member(CharacterReader* reader) {
  if (reader->skip("\\")) return read_escape(reader);
  return one(reader->next());
}

std::optional<char32_t> single(const CodePointSet& set) {
  const auto& ranges = set.ranges();
  if (ranges.size() != 1 || ranges[0].first != ranges[0].last) return std::nullopt;
  return ranges[0].first;
}

}  // namespace

char32_t CharacterReader::next() {
  const Utf8Step step = next_utf8(text_.substr(at_));
  at_ += step.length;
  return step.code_point;
}

Result<CodePointSet> read_escape(CharacterReader* reader) {
  if (reader->done()) return error_at(*reader, "nothing follows the backslash");
  const char32_t code = reader->next();
  switch (code) {
    case U'd':
      return digits();
    case U'D':
      return digits().complement();
    case U'w':
      return word();
    case U'W':
      return word().complement();
    case U's':
      return space();
    case U'S':
      return space().complement();
    case U'n':
      return one(U'\n');
    case U'r':
      return one(U'\r');
    case U't':
      return one(U'\t');
    case U'f':
      return one(U'\f');
    case U'v':
      return one(U'\v');
    case U'0':
      return one(U'\0');
    case U'x':
      return one(TRY(read_hex(reader, 2)));
    case U'u':
      return one(TRY(read_unicode(reader)));
    default:
      break;
  }
  const bool is_letter = (code >= U'a' && code <= U'z') || (code >= U'A' && code <= U'Z') ||
                         (code >= U'1' && code <= U'9');
  if (is_letter) return error_at(*reader, "this escape is not supported");
  return one(code);
}

Result<CodePointSet> read_class(CharacterReader* reader) {
  const bool negated = reader->skip("^");
  Ranges ranges;
  while (!reader->skip("]")) {
    if (reader->done()) return error_at(*reader, "\"]\" is missing");
    const CodePointSet first = TRY(read_member(reader));
    const bool is_range = reader->peek() == '-' && reader->peek(1) != ']' && reader->peek(1) != 0;
    if (!is_range) {
      ranges.insert(ranges.end(), first.ranges().begin(), first.ranges().end());
      continue;
    }
    reader->advance(1);
    const CodePointSet last = TRY(read_member(reader));
    const auto begin = single(first), end = single(last);
    if (!begin || !end || *begin > *end) return error_at(*reader, "a range that is none");
    ranges.push_back({*begin, *end});
  }
  const CodePointSet set(std::move(ranges));
  return negated ? set.complement() : set;
}

Result<Counts> read_counts(CharacterReader* reader) {
  const auto read_number = [&]() -> std::optional<std::int64_t> {
    std::int64_t value = 0;
    std::size_t length = 0;
    for (; reader->peek() >= '0' && reader->peek() <= '9' && length < 8; ++length) {
      value = value * 10 + (reader->peek() - '0');
      reader->advance(1);
    }
    if (length == 0 || value > RuleBook::kMaxRepeat) return std::nullopt;
    return value;
  };
  const auto min = read_number();
  if (!min) return error_at(*reader, "a repeat count is missing or too large");
  std::optional<std::int64_t> max = min;
  if (reader->skip(",")) {
    max = reader->peek() == '}' ? RuleBook::kUnbounded : read_number();
    if (!max) return error_at(*reader, "a repeat count is missing or too large");
  }
  if (!reader->skip("}")) return error_at(*reader, "\"}\" is missing");
  if (*max != RuleBook::kUnbounded && *max < *min) return error_at(*reader, "counts out of order");
  return Counts{*min, *max};
}

}  // namespace tandem::grammar
