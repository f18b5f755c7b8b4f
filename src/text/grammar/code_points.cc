#include "text/grammar/code_points.h"

#include <algorithm>

#include "text/json_text.h"

namespace tandem::grammar {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr CodePointRange kSurrogates{0xD800, 0xDFFF};

// The bytes of a code point, `length` of them.
void encode(char32_t code, std::size_t length, std::uint8_t* out) {
  constexpr std::uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (std::size_t i = length; i-- > 1; code >>= 6) {
    out[i] = static_cast<std::uint8_t>(0x80 | (code & 0x3F));
  }
  out[0] = static_cast<std::uint8_t>(kLead[length] | code);
}

// Runs first .. last of `length` bytes each, as sequences of byte ranges: where the leading bytes
// are equal, or the trailing ones run over everything, the bytes are independent of each other.
void add_utf8(RuleBook* book, char32_t first, char32_t last, std::size_t length,
              std::vector<ExprId>* out) {
  for (std::size_t trailing = 1; trailing < length; ++trailing) {
    const char32_t low = (char32_t{1} << (6 * trailing)) - 1;
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      add_utf8(book, first, first | low, length, out);
      add_utf8(book, (first | low) + 1, last, length, out);
      return;
    }
    if ((last & low) != low) {
      add_utf8(book, first, (last & ~low) - 1, length, out);
      add_utf8(book, last & ~low, last, length, out);
      return;
    }
  }
  std::uint8_t begin[4], end[4];
  encode(first, length, begin);
  encode(last, length, end);
  std::vector<ExprId> parts;
  for (std::size_t i = 0; i < length; ++i) parts.push_back(book->bytes({{begin[i], end[i]}}));
  out->push_back(length == 1 ? parts[0] : book->sequence(std::move(parts)));
}

// Code points first .. last, which have no surrogates among them.
void add_utf8(RuleBook* book, char32_t first, char32_t last, std::vector<ExprId>* out) {
  constexpr char32_t kEnds[] = {0, 0x7F, 0x7FF, 0xFFFF, kLast};
  for (std::size_t length = 1; length <= 4 && first <= last; ++length) {
    if (first > kEnds[length]) continue;
    const char32_t end = std::min(last, kEnds[length]);
    add_utf8(book, first, end, length, out);
    first = end + 1;
  }
}

bool needs_escape(char32_t code) { return code < 0x20 || code == U'"' || code == U'\\'; }

}  // namespace

CodePointSet::CodePointSet(std::vector<CodePointRange> ranges) {
  std::vector<CodePointRange> cut;
  for (const CodePointRange& range : ranges) {
    if (range.first < kSurrogates.first) {
      cut.push_back({range.first, std::min<char32_t>(range.last, kSurrogates.first - 1)});
    }
    if (range.last > kSurrogates.last) {
      cut.push_back({std::max<char32_t>(range.first, kSurrogates.last + 1), range.last});
    }
  }
  std::sort(cut.begin(), cut.end(), [](auto a, auto b) { return a.first < b.first; });
  for (const CodePointRange& range : cut) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

CodePointSet CodePointSet::all() { return CodePointSet({{0, kLast}}); }

CodePointSet CodePointSet::complement() const {
  std::vector<CodePointRange> out;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) out.push_back({next, kLast});
  return CodePointSet(std::move(out));
}

ExprId character(RuleBook* book, const CodePointSet& set, Spelling spelling) {
  std::vector<ExprId> choices;
  for (const CodePointRange& range : set.ranges()) {
    if (spelling == Spelling::kText) {
      add_utf8(book, range.first, range.last, &choices);
      continue;
    }
    // All that need an escape lie among the first 128 code points.
    char32_t first = range.first;
    for (char32_t code = first; code <= std::min<char32_t>(range.last, 0x7F); ++code) {
      if (!needs_escape(code)) continue;
      if (first < code) add_utf8(book, first, code - 1, &choices);
      choices.push_back(book->literal(escape_json(std::string(1, static_cast<char>(code)))));
      first = code + 1;
    }
    if (first <= range.last) add_utf8(book, first, range.last, &choices);
  }
  return book->choice(std::move(choices));
}

std::string spell(std::string_view text, Spelling spelling) {
  return spelling == Spelling::kJson ? escape_json(text) : std::string(text);
}

ExprId any_json_character(RuleBook* book) {
  const CodePointSet plain = CodePointSet({{0, 0x1F}, {U'"', U'"'}, {U'\\', U'\\'}}).complement();
  const ExprId hex = book->bytes({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
  const ExprId d = book->bytes({{'D', 'D'}, {'d', 'd'}});
  const ExprId not_d = book->bytes({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}});
  const ExprId high = book->bytes({{'8', '9'}, {'A', 'B'}, {'a', 'b'}});
  const ExprId low = book->bytes({{'C', 'F'}, {'c', 'f'}});
  const ExprId below = book->bytes({{'0', '7'}});
  const ExprId unit =
      book->choice({book->sequence({not_d, hex, hex, hex}), book->sequence({d, below, hex, hex}),
                    book->sequence({d, high, hex, hex, book->literal("\\u"), d, low, hex, hex})});
  const ExprId short_escape = book->bytes({{'"', '"'},
                                           {'/', '/'},
                                           {'\\', '\\'},
                                           {'b', 'b'},
                                           {'f', 'f'},
                                           {'n', 'n'},
                                           {'r', 'r'},
                                           {'t', 't'}});
  const ExprId escape =
      book->sequence({book->literal("\\"),
                      book->choice({short_escape, book->sequence({book->literal("u"), unit})})});
  return book->choice({character(book, plain, Spelling::kText), escape});
}

}  // namespace tandem::grammar
