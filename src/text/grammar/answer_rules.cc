#include "text/grammar/answer_rules.h"

#include <utility>

#include "base/check.h"
#include "text/grammar/ebnf.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_compiler.h"
#include "text/utf8.h"

namespace tandem::grammar {
namespace {

// Sources are JSON values of their own, with paths from "#".
Result<ExprId> schema_expression(std::string_view source, RuleBook* book, JsonRules* rules,
                                 Budget* budget) {
  const auto value = parse_json(source);
  if (!value) return invalid("not JSON: {}", value.error().message);
  return book->call(TRY(SchemaCompiler(*value, book, rules, budget).compile({&*value, "#"})));
}

Result<ExprId> unplaced_expression(const ResponseFormat& format, RuleBook* book, JsonRules* rules,
                                   Budget* budget) {
  // Messages quote the source, so it must be text.
  if (!is_valid_utf8(format.source)) return invalid("the source is not valid UTF-8");
  switch (format.kind) {
    case ResponseFormat::Kind::kText:
      break;
    case ResponseFormat::Kind::kJsonObject:
      return rules->any_object();
    case ResponseFormat::Kind::kJsonSchema:
      return schema_expression(format.source, book, rules, budget);
    case ResponseFormat::Kind::kRegex:
      return book->automaton(
          TRY(regex_automaton(format.source, RegexMatch::kWhole, Spelling::kText, budget)));
    case ResponseFormat::Kind::kEbnf:
      return book->call(TRY(parse_ebnf(format.source, book)));
  }
  CHECK(false, "text needs no grammar");
}

}  // namespace

Status at_field(const Status& error, const std::string& field) {
  return {error.code, fmt::format("{}: {}", field, error.message), field};
}

Result<ExprId> AnswerRules::content(const ResponseFormat& format) {
  if (format.kind == ResponseFormat::Kind::kText) return free_text();
  return unplaced_expression(format, book_, &rules_, budget_).map_error([&](const Status& error) {
    return at_field(error, format.field);
  });
}

ExprId AnswerRules::marker(std::string_view name) {
  const auto id = tokenizer_.id_of(name);
  CHECK(id.has_value(), "the tokenizer has no {}", name);
  return book_->literal(marker_bytes(*id));
}

ExprId AnswerRules::digits(bool from_zero) {
  const ExprId number =
      all({book_->bytes({{'1', '9'}}), book_->repeat(book_->bytes({{'0', '9'}}), 0, 3)});
  return from_zero ? any({literal("0"), number}) : number;
}

ExprId AnswerRules::calls(const AnswerShape& shape, ExprId call) {
  return shape.one_call ? call : book_->repeat(call, 1, RuleBook::kUnbounded);
}

Result<ExprId> AnswerRules::any_call(const AnswerShape& shape) {
  std::vector<ExprId> choices;
  for (const DeclaredTool& tool : shape.tools) choices.push_back(TRY(call_of(tool)));
  return any(std::move(choices));
}

Result<ExprId> AnswerRules::call_of(const DeclaredTool& tool) {
  static const JsonValue kAnyObject =
      *parse_json(R"({"type": "object", "additionalProperties": true})");
  if (tool.parameters.empty()) return call(tool, kAnyObject);
  const auto schema = parse_json(tool.parameters);
  const std::string field = tool.field + ".function.parameters";
  if (!schema) return fail(at_field(schema.error(), field));
  if (!tool.strict) {
    // In a book of its own first: rules that were begun cannot be taken back.
    RuleBook book;
    Budget budget = *budget_;
    JsonRules rules(&book, &budget);
    SchemaCompiler compiler(*schema, &book, &rules, &budget);
    const bool usable = compiler.object_forms({&*schema, "#"}).has_value() &&
                        compiler.compile({&*schema, "#"}).has_value();
    *budget_ = budget;
    if (!usable) return call(tool, kAnyObject);
  }
  auto made = call(tool, *schema);
  if (!made) return fail(at_field(made.error(), field));
  return *made;
}

}  // namespace tandem::grammar
