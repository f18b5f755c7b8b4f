#include "text/grammar/answer_grammar.h"

#include <algorithm>
#include <utility>

#include "text/chat_common.h"
#include "text/grammar/answer_rules.h"
#include "text/json_text.h"

namespace tandem {
namespace {

using grammar::Budget;
using grammar::RuleBook;

const JsonValue* member(const JsonValue* object, std::string_view key) {
  if (object == nullptr) return nullptr;
  const auto found = std::find(object->keys.begin(), object->keys.end(), key);
  if (found == object->keys.end()) return nullptr;
  return &object->items[static_cast<std::size_t>(found - object->keys.begin())];
}

void add_tools(const std::vector<std::string>& tools, const std::string& field,
               std::vector<AnswerShape::Tool>* out) {
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const auto parsed = parse_json(tools[i]);
    const JsonValue* function = parsed ? member(&*parsed, "function") : nullptr;
    const JsonValue* name = member(function, "name");
    if (name == nullptr) continue;  // rendering refuses it
    const JsonValue* parameters = member(function, "parameters");
    const JsonValue* strict = member(function, "strict");
    const bool has_parameters = parameters != nullptr && parameters->kind != JsonValue::Kind::kNull;
    out->push_back({.name = name->text,
                    .parameters = has_parameters ? to_json(*parameters, JsonStyle::kSpaced) : "",
                    .strict = strict != nullptr && strict->text == "true",
                    .field = fmt::format("{}[{}]", field, i)});
  }
}

Result<void> check_size(std::size_t bytes, const std::string& field, const GrammarLimits& limits) {
  if (bytes <= limits.source_bytes) return {};
  return invalid_field(field, fmt::format("{}: the source has {} bytes, more than {}", field, bytes,
                                          limits.source_bytes));
}

Result<Grammar::Pointer> link(const RuleBook& book, const Grammar::Vocabulary& vocabulary,
                              const std::string& field, Budget* budget) {
  auto linked = grammar::Pushdown::link(book, budget);
  if (!linked) return invalid_field(field, fmt::format("{}: {}", field, linked.error().message));
  return std::make_shared<const Grammar>(*std::move(linked), vocabulary);
}

}  // namespace

std::string AnswerShape::key() const {
  std::string out = fmt::format("{} {} {} {}", static_cast<int>(start), static_cast<int>(calls),
                                one_call, static_cast<int>(format.kind));
  const auto add = [&out](const std::string& text) {
    out += fmt::format(" {}:{}", text.size(), text);
  };
  add(format.source);
  for (const Tool& tool : tools) {
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
  if (request.tool_choice != ToolChoice::kNone) {
    add_tools(request.tools, "tools", &shape.tools);
    for (std::size_t i = 0; i < request.messages.size(); ++i) {
      add_tools(request.messages[i].tools, fmt::format("messages[{}].tools", i), &shape.tools);
    }
  }
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
  TRY(check_size(format.source.size(), format.field, limits));
  Budget budget(limits);
  RuleBook book;
  grammar::JsonRules rules(&book, &budget);
  const grammar::RuleId root = book.declare("content");
  book.define(root, TRY(grammar::content_expression(format, &book, &rules, &budget)));
  return link(book, vocabulary, format.field, &budget);
}

Result<Grammar::Pointer> compile_answer_grammar(const AnswerShape& shape, ChatFamily family,
                                                const Tokenizer& tokenizer,
                                                const Grammar::Vocabulary& vocabulary,
                                                const GrammarLimits& limits) {
  std::size_t bytes = 0;
  for (const AnswerShape::Tool& tool : shape.tools) bytes += tool.parameters.size();
  TRY(check_size(shape.format.source.size(), shape.format.field, limits));
  TRY(check_size(bytes, "tools", limits));
  Budget budget(limits);
  RuleBook book;
  const auto rules = family == ChatFamily::kK3
                         ? grammar::make_k3_answer_rules(tokenizer, &book, &budget)
                         : grammar::make_kimi_linear_answer_rules(tokenizer, &book, &budget);
  const grammar::RuleId root = book.declare("answer");
  book.define(root, TRY(rules->answer(shape)));
  const bool is_free = shape.format.kind == ResponseFormat::Kind::kText;
  return link(book, vocabulary, is_free ? "tools" : shape.format.field, &budget);
}

}  // namespace tandem
