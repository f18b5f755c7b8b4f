#include "text/grammar/regex.h"

#include "text/grammar/character_class.h"
#include "text/utf8.h"

namespace tandem::grammar {
namespace {

// "^" and "$" read these bytes, which stand before and after the text and occur in no UTF-8.
constexpr std::uint8_t kBegin = 0xFE;
constexpr std::uint8_t kEnd = 0xFF;
constexpr int kMaxGroups = 100;  // inside each other

class RegexParser {
 public:
  RegexParser(std::string_view pattern, Spelling spelling, RuleBook* book)
      : reader_(pattern), spelling_(spelling), book_(book) {}

  Result<ExprId> parse() {
    const ExprId out = TRY(parse_choice());
    if (!reader_.done()) return error("\")\" without \"(\"");
    return out;
  }

 private:
  tl::unexpected<Status> error(std::string_view what) const {
    return invalid("at byte {}: {}", reader_.position(), what);
  }

  Result<ExprId> parse_choice() {
    std::vector<ExprId> choices{TRY(parse_sequence())};
    while (reader_.skip("|")) choices.push_back(TRY(parse_sequence()));
    return choices.size() == 1 ? choices[0] : book_->choice(std::move(choices));
  }

  Result<ExprId> parse_sequence() {
    std::vector<ExprId> parts;
    while (!reader_.done() && reader_.peek() != '|' && reader_.peek() != ')') {
      parts.push_back(TRY(parse_repeat()));
    }
    return book_->sequence(std::move(parts));
  }

  Result<ExprId> parse_repeat() {
    if (reader_.skip("^")) return book_->bytes({{kBegin, kBegin}});
    if (reader_.skip("$")) return book_->bytes({{kEnd, kEnd}});
    const ExprId atom = TRY(parse_atom());
    Counts counts{1, 1};
    if (reader_.skip("*")) {
      counts = {0, RuleBook::kUnbounded};
    } else if (reader_.skip("+")) {
      counts = {1, RuleBook::kUnbounded};
    } else if (reader_.skip("?")) {
      counts = {0, 1};
    } else if (reader_.skip("{")) {
      counts = TRY(read_counts(&reader_));
    } else {
      return atom;
    }
    reader_.skip("?");  // lazy: the same texts match
    if (reader_.peek() == '*' || reader_.peek() == '+' || reader_.peek() == '{') {
      return error("nothing to repeat");
    }
    return book_->inline_repeat(atom, counts.min, counts.max);
  }

  Result<ExprId> parse_atom() {
    const char front = reader_.peek();
    if (front == '*' || front == '+' || front == '?' || front == '{') {
      return error("nothing to repeat");
    }
    if (front == ']' || front == '}') return error("a bracket that was not opened");
    if (reader_.skip("(")) return parse_group();
    if (reader_.skip("[")) return character(book_, TRY(read_class(&reader_)), spelling_);
    if (reader_.skip("\\")) return character(book_, TRY(read_escape(&reader_)), spelling_);
    if (reader_.skip(".")) {
      const CodePointSet newlines({{U'\n', U'\n'}, {U'\r', U'\r'}, {0x2028, 0x2029}});
      return character(book_, newlines.complement(), spelling_);
    }
    const char32_t code = reader_.next();
    return character(book_, CodePointSet({{code, code}}), spelling_);
  }

  Result<ExprId> parse_group() {
    if (reader_.skip("?")) {
      const bool is_name =
          reader_.peek() == '<' && reader_.peek(1) != '=' && reader_.peek(1) != '!';
      if (is_name) {
        while (!reader_.done() && reader_.peek() != '>') reader_.advance(1);
      }
      if (!reader_.skip(is_name ? ">" : ":")) return error("this kind of group is not supported");
    }
    if (++groups_ > kMaxGroups) return error("groups are nested too deep");
    const ExprId inner = TRY(parse_choice());
    --groups_;
    if (!reader_.skip(")")) return error("\")\" is missing");
    return inner;
  }

  CharacterReader reader_;
  Spelling spelling_;
  RuleBook* book_;
  int groups_ = 0;
};

// The texts T for which `framed` accepts kBegin T kEnd.
Automaton strip_frame(const Automaton& framed) {
  const auto follow = [&](const Automaton::State& state, std::uint8_t byte) -> StateId {
    for (const auto& edge : state.edges) {
      if (byte >= edge.bytes.first && byte <= edge.bytes.last) return edge.target;
    }
    return -1;
  };
  const StateId first = framed.states.empty() ? -1 : follow(framed.states[0], kBegin);
  if (first < 0) return {};
  Automaton out;
  for (const Automaton::State& state : framed.states) {
    const StateId last = follow(state, kEnd);
    Automaton::State copy;
    copy.accepting = last >= 0 && framed.states[static_cast<std::size_t>(last)].accepting;
    for (const auto& edge : state.edges) {
      if (edge.bytes.first < kBegin) copy.edges.push_back(edge);
    }
    out.states.push_back(std::move(copy));
  }
  // The new start takes the old start's place, which nothing leads to any more.
  out.states[0] = out.states[static_cast<std::size_t>(first)];
  return out;
}

}  // namespace

Result<Automaton> regex_automaton(std::string_view pattern, RegexMatch match, Spelling spelling,
                                  Budget* budget) {
  if (!is_valid_utf8(pattern)) return invalid("the pattern is not UTF-8");
  RuleBook book;
  const ExprId body = TRY(RegexParser(pattern, spelling, &book).parse());
  const ExprId begin = book.bytes({{kBegin, kBegin}});
  const ExprId end = book.bytes({{kEnd, kEnd}});
  ExprId before = begin, after = end;
  if (match == RegexMatch::kSearch) {
    const ExprId anything = book.inline_repeat(character(&book, CodePointSet::all(), spelling), 0,
                                               RuleBook::kUnbounded);
    before = book.sequence({begin, anything});
    after = book.sequence({anything, end});
  }
  const ExprId framed = book.sequence({book.optional(before), body, book.optional(after)});
  return strip_frame(TRY(build_automaton(book, framed, budget)));
}

}  // namespace tandem::grammar
