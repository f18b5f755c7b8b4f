#include "text/grammar/answer_grammar.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/chat_common.h"
#include "text/grammar/answer_rules.h"

namespace tandem {
namespace {

using grammar::Budget;
using grammar::RuleBook;

Result<void> check_size(std::size_t bytes, const std::string& field, const GrammarLimits& limits) {
  if (bytes <= limits.source_bytes) return {};
  return invalid_field(field, fmt::format("{}: the source has {} bytes, more than {}", field, bytes,
                                          limits.source_bytes));
}

Result<Grammar::Pointer> unplaced_grammar(const ResponseFormat& format,
                                          const Grammar::Vocabulary& vocabulary,
                                          const GrammarLimits& limits) {
  switch (format.kind) {
    case ResponseFormat::Kind::kText:
      break;
    case ResponseFormat::Kind::kJsonObject:
      return Grammar::json_object(vocabulary);
    case ResponseFormat::Kind::kJsonSchema:
      return Grammar::json_schema(format.source, vocabulary, limits);
    case ResponseFormat::Kind::kRegex:
      return Grammar::regex(format.source, vocabulary, limits);
    case ResponseFormat::Kind::kEbnf:
      return Grammar::ebnf(format.source, vocabulary, limits);
  }
  CHECK(false, "text needs no grammar");
}

}  // namespace

std::string AnswerShape::key() const {
  std::string out = fmt::format("{} {} {} {}", static_cast<int>(start), static_cast<int>(calls),
                                one_call, static_cast<int>(format.kind));
  const auto add = [&out](const std::string& text) {
    out += fmt::format(" {}:{}", text.size(), text);
  };
  add(format.source);
  for (const DeclaredTool& tool : tools) {
    add(tool.name);
    add(tool.parameters);
    out += tool.strict ? "!" : "";
  }
  return out;
}

Result<std::optional<AnswerShape>> answer_shape(const ChatRequest& request, OutputStart start) {
  AnswerShape shape{.start = start, .format = request.response_format};
  const bool is_free = shape.format.kind == ResponseFormat::Kind::kText;
  if (!is_free && request.continue_final_message) {
    return invalid_field(shape.format.field,
                         shape.format.field + ": cannot begin in the middle of a message");
  }
  if (request.tool_choice != ToolChoice::kNone) shape.tools = declared_tools(request);
  if (request.tool_choice == ToolChoice::kNamed) {
    std::erase_if(shape.tools, [&](const auto& tool) { return tool.name != request.named_tool; });
  }
  const bool must_call =
      request.tool_choice == ToolChoice::kRequired || request.tool_choice == ToolChoice::kNamed;
  if (must_call && shape.tools.empty()) {
    return invalid_field("tool_choice", "tool_choice: asks for a tool that is not given");
  }
  const bool any_strict = std::any_of(shape.tools.begin(), shape.tools.end(),
                                      [](const auto& tool) { return tool.strict; });
  shape.one_call = !shape.tools.empty() && !request.parallel_tool_calls;
  if (is_free && !must_call && !any_strict && !shape.one_call) return std::nullopt;
  if (!shape.tools.empty()) {
    shape.calls = must_call ? AnswerShape::Calls::kRequired : AnswerShape::Calls::kAllowed;
  }
  return shape;
}

Result<Grammar::Pointer> compile_text_grammar(const ResponseFormat& format,
                                              const Grammar::Vocabulary& vocabulary,
                                              const GrammarLimits& limits) {
  return unplaced_grammar(format, vocabulary, limits).map_error([&](const Status& error) {
    return grammar::at_field(error, format.field);
  });
}

Result<Grammar::Pointer> compile_answer_grammar(const AnswerShape& shape, ChatFamily family,
                                                const Tokenizer& tokenizer,
                                                const Grammar::Vocabulary& vocabulary,
                                                const GrammarLimits& limits) {
  std::size_t bytes = 0;
  for (const DeclaredTool& tool : shape.tools) bytes += tool.parameters.size();
  TRY(check_size(shape.format.source.size(), shape.format.field, limits));
  TRY(check_size(bytes, "tools", limits));
  Budget budget(limits);
  RuleBook book;
  const auto rules = family == ChatFamily::kK3
                         ? grammar::make_k3_answer_rules(tokenizer, &book, &budget)
                         : grammar::make_kimi_linear_answer_rules(tokenizer, &book, &budget);
  const grammar::RuleId root = book.declare("answer");
  book.define(root, TRY(rules->answer(shape)));
  auto linked = grammar::Pushdown::link(book, &budget);
  if (!linked) {
    const bool is_free = shape.format.kind == ResponseFormat::Kind::kText;
    return fail(grammar::at_field(linked.error(), is_free ? "tools" : shape.format.field));
  }
  return std::make_shared<const Grammar>(*std::move(linked), vocabulary);
}

}  // namespace tandem
