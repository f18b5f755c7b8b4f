// The parts of an answer as rules; how they are joined differs by family.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/grammar/answer_grammar.h"
#include "text/grammar/budget.h"
#include "text/grammar/json_rules.h"
#include "text/json_text.h"

namespace tandem::grammar {

// Makes the rules of one answer. Single owner; what it is given must outlive it.
class AnswerRules {
 public:
  AnswerRules(const Tokenizer& tokenizer, RuleBook* book, Budget* budget)
      : tokenizer_(tokenizer), book_(book), budget_(budget), rules_(book, budget) {}
  virtual ~AnswerRules() = default;
  AnswerRules(const AnswerRules&) = delete;
  AnswerRules& operator=(const AnswerRules&) = delete;

  virtual Result<ExprId> answer(const AnswerShape& shape) = 0;

 protected:
  // Any text without markers.
  ExprId free_text() {
    return book_->repeat(book_->bytes({{0x00, 0xFE}}), 0, RuleBook::kUnbounded);
  }
  Result<ExprId> content(const ResponseFormat& format);
  // A special token; it must exist.
  ExprId marker(std::string_view name);
  // Text that stands between markers, such as a tag.
  ExprId literal(std::string_view text) { return book_->literal(text); }
  ExprId all(std::vector<ExprId> parts) { return book_->sequence(std::move(parts)); }
  ExprId any(std::vector<ExprId> parts) { return book_->choice(std::move(parts)); }
  ExprId digits(bool from_zero);
  // One or, unless there may be one only, more.
  ExprId calls(const AnswerShape& shape, ExprId call);
  // A call of any of the shape's tools.
  Result<ExprId> any_call(const AnswerShape& shape);

  // One call, its arguments valid under the schema.
  virtual Result<ExprId> call(const DeclaredTool& tool, const JsonValue& schema) = 0;

  const Tokenizer& tokenizer_;
  RuleBook* book_;
  Budget* budget_;
  JsonRules rules_;

 private:
  Result<ExprId> call_of(const DeclaredTool& tool);
};

std::unique_ptr<AnswerRules> make_k3_answer_rules(const Tokenizer& tokenizer, RuleBook* book,
                                                  Budget* budget);
std::unique_ptr<AnswerRules> make_kimi_linear_answer_rules(const Tokenizer& tokenizer,
                                                           RuleBook* book, Budget* budget);

// An error of a source, with the field of the request in front.
Status at_field(const Status& error, const std::string& field);

}  // namespace tandem::grammar
