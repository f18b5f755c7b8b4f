#include "text/grammar/ebnf.h"

#include <algorithm>
#include <map>
#include <string>

#include "text/grammar/character_class.h"
#include "text/utf8.h"

namespace tandem::grammar {
namespace {

constexpr int kMaxGroups = 100;  // inside each other

class EbnfParser {
 public:
  EbnfParser(std::string_view text, RuleBook* book) : reader_(text), book_(book) {}

  Result<RuleId> parse() {
    const RuleId root = rule_named("root").id;
    skip_space();
    while (!reader_.done()) TRY(parse_rule());
    for (const auto& [name, rule] : rules_) {
      if (rule.is_defined) continue;
      return error_at(rule.first_use, fmt::format("there is no rule \"{}\"", name));
    }
    return root;
  }

 private:
  struct Rule {
    RuleId id;
    std::size_t first_use;
    bool is_defined = false;
  };

  tl::unexpected<Status> error_at(std::size_t position, std::string_view what) const {
    const std::string_view before = reader_.text().substr(0, position);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t start = before.find_last_of('\n');  // npos + 1 is 0
    std::string place = fmt::format("{}:{}", line, position - (start + 1) + 1);
    std::string message = place + " " + std::string(what);
    return fail(Status{StatusCode::kInvalidArgument, std::move(message), std::move(place)});
  }
  tl::unexpected<Status> error(std::string_view what) const {
    return error_at(reader_.position(), what);
  }
  // Places of the shared readers count bytes; here they become line and column.
  template <typename T>
  Result<T> placed(Result<T> result) const {
    if (result) return result;
    const std::string& message = result.error().message;
    return error(std::string_view(message).substr(message.find(": ") + 2));
  }

  void skip_space() {
    while (true) {
      const char c = reader_.peek();
      if (reader_.done()) return;
      if (c == '#') {
        while (!reader_.done() && reader_.peek() != '\n') reader_.advance(1);
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        reader_.advance(1);
      } else {
        return;
      }
    }
  }

  static bool is_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  }
  std::string read_name() {
    std::string name;
    for (; is_name_byte(reader_.peek()); reader_.advance(1)) name += reader_.peek();
    return name;
  }
  // Whether a name and "::=" follow, which begins the next rule.
  bool at_rule() {
    const CharacterReader here = reader_;
    const bool named = !read_name().empty();
    skip_space();
    const bool found = named && reader_.looking_at("::=");
    reader_ = here;
    return found;
  }

  Rule& rule_named(const std::string& name) {
    const auto known = rules_.find(name);
    if (known != rules_.end()) return known->second;
    return rules_.emplace(name, Rule{book_->declare(name), reader_.position()}).first->second;
  }

  Result<void> parse_rule() {
    const std::size_t begin = reader_.position();
    const std::string name = read_name();
    skip_space();
    if (name.empty() || !reader_.skip("::=")) return error("expected a rule: name ::= ...");
    Rule& rule = rule_named(name);
    if (rule.is_defined) return error_at(begin, fmt::format("\"{}\" is defined twice", name));
    rule.is_defined = true;
    const RuleId id = rule.id;
    book_->define(id, TRY(parse_choice()));
    if (!reader_.done() && !at_rule()) return error("unexpected character");
    return {};
  }

  Result<ExprId> parse_choice() {
    std::vector<ExprId> choices{TRY(parse_sequence())};
    while (reader_.skip("|")) choices.push_back(TRY(parse_sequence()));
    return choices.size() == 1 ? choices[0] : book_->choice(std::move(choices));
  }

  Result<ExprId> parse_sequence() {
    std::vector<ExprId> parts;
    skip_space();
    while (!reader_.done() && reader_.peek() != '|' && reader_.peek() != ')' && !at_rule()) {
      parts.push_back(TRY(parse_repeat()));
      skip_space();
    }
    return book_->sequence(std::move(parts));
  }

  Result<ExprId> parse_repeat() {
    ExprId item = TRY(parse_item());
    while (true) {
      Counts counts{};
      if (reader_.skip("*")) {
        counts = {0, RuleBook::kUnbounded};
      } else if (reader_.skip("+")) {
        counts = {1, RuleBook::kUnbounded};
      } else if (reader_.skip("?")) {
        counts = {0, 1};
      } else if (reader_.skip("{")) {
        counts = TRY(placed(read_counts(&reader_)));
      } else {
        return item;
      }
      item = book_->repeat(item, counts.min, counts.max);
    }
  }

  Result<ExprId> parse_item() {
    if (reader_.skip("\"")) return parse_literal();
    if (reader_.skip("[")) {
      return character(book_, TRY(placed(read_class(&reader_))), Spelling::kText);
    }
    if (reader_.skip(".")) return character(book_, CodePointSet::all(), Spelling::kText);
    if (reader_.skip("(")) {
      if (++groups_ > kMaxGroups) return error("groups are nested too deep");
      const ExprId inner = TRY(parse_choice());
      --groups_;
      if (!reader_.skip(")")) return error("\")\" is missing");
      return inner;
    }
    const std::size_t begin = reader_.position();
    const std::string name = read_name();
    if (name.empty()) return error("unexpected character");
    Rule& rule = rule_named(name);
    if (!rule.is_defined) rule.first_use = std::min(rule.first_use, begin);
    return book_->call(rule.id);
  }

  Result<ExprId> parse_literal() {
    std::vector<ExprId> parts;
    while (!reader_.skip("\"")) {
      if (reader_.done() || reader_.peek() == '\n') return error("'\"' is missing");
      CodePointSet set;
      if (reader_.skip("\\")) {
        set = TRY(placed(read_escape(&reader_)));
      } else {
        const char32_t code = reader_.next();
        set = CodePointSet({{code, code}});
      }
      parts.push_back(character(book_, set, Spelling::kText));
    }
    return book_->sequence(std::move(parts));
  }

  CharacterReader reader_;
  RuleBook* book_;
  std::map<std::string, Rule> rules_;
  int groups_ = 0;
};

}  // namespace

Result<RuleId> parse_ebnf(std::string_view text, RuleBook* book) {
  if (!is_valid_utf8(text)) return invalid("the grammar is not UTF-8");
  return EbnfParser(text, book).parse();
}

}  // namespace tandem::grammar
