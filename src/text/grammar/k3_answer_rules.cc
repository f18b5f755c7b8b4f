// Kimi K3's answers: channels between `<|open|> tag <|sep|>` and `<|close|> tag <|sep|>`, arguments
// of calls each in a channel of its own.
#include <algorithm>
#include <optional>
#include <utility>

#include "text/grammar/answer_rules.h"
#include "text/grammar/automaton.h"
#include "text/grammar/schema_compiler.h"
#include "text/xtml_marker.h"

namespace tandem::grammar {
namespace {

class K3AnswerRules final : public AnswerRules {
 public:
  using AnswerRules::AnswerRules;

  Result<ExprId> answer(const AnswerShape& shape) override {
    const bool thinks = shape.start == OutputStart::kThinking;
    const ExprId text = TRY(content(shape.format));
    // A response that the prompt has opened cannot be left out.
    const auto response = [&](ExprId body) {
      return all({thinks ? open(literal("response")) : book_->empty(), body, close("response")});
    };
    std::vector<ExprId> ways;
    if (shape.calls != AnswerShape::Calls::kRequired) ways.push_back(response(text));
    if (shape.calls != AnswerShape::Calls::kNone) {
      const ExprId section =
          all({open(literal("tools")), calls(shape, TRY(any_call(shape))), close("tools")});
      // Beside a call nothing has to be said, and a format is not asked for.
      const bool is_free = shape.format.kind == ResponseFormat::Kind::kText;
      const ExprId before = response(is_free ? free_text() : book_->empty());
      ways.push_back(all({thinks ? book_->optional(before) : before, section}));
    }
    const ExprId thinking = thinks ? all({free_text(), close("think")}) : book_->empty();
    return all({thinking, any(std::move(ways)), close("message")});
  }

 private:
  ExprId open(ExprId tag) { return all({marker("<|open|>"), tag, marker("<|sep|>")}); }
  ExprId close(std::string_view tag) {
    return all({marker("<|close|>"), literal(tag), marker("<|sep|>")});
  }

  Result<ExprId> call(const DeclaredTool& tool, const JsonValue& schema) override {
    SchemaCompiler compiler(schema, book_, &rules_, budget_);
    std::vector<ExprId> ways;
    for (const auto& form : TRY(compiler.object_forms({&schema, "#"}))) {
      // The output has no way to write such an argument.
      const bool is_lost = std::any_of(form.members.begin(), form.members.end(),
                                       [](const auto& m) { return m.key.empty() && m.required; });
      if (is_lost && tool.strict) return invalid("#/required: an argument needs a name");
      ways.push_back(TRY(arguments(compiler, form)));
    }
    TRY(compiler.finish());
    const ExprId tag =
        all({literal("call tool=\"" + escape_xtml_attribute(tool.name) + "\" index=\""),
             digits(false), literal("\"")});
    return all({open(tag), any(std::move(ways)), close("call")});
  }

  Result<ExprId> arguments(SchemaCompiler& compiler, const SchemaCompiler::ObjectForm& form) {
    std::vector<ExprId> parts;
    for (const auto& member : form.members) {
      if (member.key.empty()) continue;
      const ExprId key = literal(escape_xtml_attribute(member.key));
      const auto values = TRY(compiler.typed_values(member.schema));
      const ExprId one = argument(key, values);
      parts.push_back(member.required ? one : book_->optional(one));
    }
    if (form.others) {
      const ExprId key = TRY(other_key(form.keys()));
      const auto values = TRY(compiler.typed_values(*form.others));
      const ExprId one = argument(key, values);
      parts.push_back(book_->repeat(one, 0, RuleBook::kUnbounded));
    }
    return all(std::move(parts));
  }

  ExprId argument(ExprId key, const std::vector<SchemaCompiler::TypedValue>& values) {
    std::vector<ExprId> ways;
    for (const auto& [type, value] : values) {
      ways.push_back(all({literal(type), literal("\""), marker("<|sep|>"), value}));
    }
    return all({marker("<|open|>"), literal("argument key=\""), key, literal("\" type=\""),
                any(std::move(ways)), close("argument")});
  }

  // Keys that need no escapes and are none of `known`.
  Result<ExprId> other_key(const std::vector<std::string>& known) {
    const CodePointSet plain =
        CodePointSet({{0, U' '}, {U'"', U'"'}, {U'&', U'&'}, {U'<', U'>'}, {0x7F, 0xA0}})
            .complement();
    const ExprId key =
        book_->repeat(character(book_, plain, Spelling::kText), 1, RuleBook::kUnbounded);
    if (known.empty()) return rules_.rule("argument key", [&]() -> Result<ExprId> { return key; });
    std::vector<ExprId> taken;
    for (const std::string& name : known) taken.push_back(literal(name));
    const Automaton every = TRY(build_automaton(*book_, key, budget_));
    const Automaton not_these = TRY(build_automaton(*book_, any(std::move(taken)), budget_));
    return book_->automaton(TRY(combine(every, not_these, Combine::kFirstNotSecond, budget_)));
  }
};

}  // namespace

std::unique_ptr<AnswerRules> make_k3_answer_rules(const Tokenizer& tokenizer, RuleBook* book,
                                                  Budget* budget) {
  return std::make_unique<K3AnswerRules>(tokenizer, book, budget);
}

}  // namespace tandem::grammar
