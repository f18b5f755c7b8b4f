// Answers of Kimi Linear and Kimi K2: text, then a section of calls whose arguments are JSON.
#include <utility>

#include "text/grammar/answer_rules.h"
#include "text/grammar/schema_compiler.h"

namespace tandem::grammar {
namespace {

class KimiLinearAnswerRules final : public AnswerRules {
 public:
  using AnswerRules::AnswerRules;

  Result<ExprId> answer(const AnswerShape& shape) override {
    const bool is_free = shape.format.kind == ResponseFormat::Kind::kText;
    std::vector<ExprId> ways;
    if (shape.calls != AnswerShape::Calls::kRequired) ways.push_back(TRY(content(shape.format)));
    if (shape.calls != AnswerShape::Calls::kNone) {
      ways.push_back(
          all({is_free ? free_text() : book_->empty(), marker("<|tool_calls_section_begin|>"),
               calls(shape, TRY(any_call(shape))), marker("<|tool_calls_section_end|>")}));
    }
    const bool thinks = shape.start == OutputStart::kThinking;
    const ExprId thinking = thinks ? all({free_text(), marker("</think>")}) : book_->empty();
    return all({thinking, any(std::move(ways))});
  }

 private:
  Result<ExprId> call(const DeclaredTool& tool, const JsonValue& schema) override {
    SchemaCompiler compiler(schema, book_, &rules_, budget_);
    std::vector<ExprId> ways;
    for (const auto& form : TRY(compiler.object_forms({&schema, "#"}))) {
      ways.push_back(TRY(compiler.object(form)));
    }
    TRY(compiler.finish());
    const ExprId arguments = any(std::move(ways));
    return all({marker("<|tool_call_begin|>"), literal("functions." + tool.name + ":"),
                digits(true), marker("<|tool_call_argument_begin|>"), arguments,
                marker("<|tool_call_end|>")});
  }
};

}  // namespace

std::unique_ptr<AnswerRules> make_kimi_linear_answer_rules(const Tokenizer& tokenizer,
                                                           RuleBook* book, Budget* budget) {
  return std::make_unique<KimiLinearAnswerRules>(tokenizer, book, budget);
}

}  // namespace tandem::grammar
