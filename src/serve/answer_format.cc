#include "serve/answer_format.h"

#include <optional>
#include <string>

namespace tandem {
namespace {

using Kind = ResponseFormat::Kind;
using Format = Result<ResponseFormat>;

// A schema as an object, a boolean, or text of one.
Format schema_format(const JsonValue& value, const std::string& field) {
  if (value.kind == JsonValue::Kind::kString)
    return ResponseFormat{Kind::kJsonSchema, value.text, field};
  if (value.kind != JsonValue::Kind::kObject && value.kind != JsonValue::Kind::kBoolean) {
    return bad_field(field, "a JSON schema", value);
  }
  return ResponseFormat{Kind::kJsonSchema, to_json(value, JsonStyle::kSpaced), field};
}

Format regex_format(const JsonValue& value, const std::string& field) {
  return ResponseFormat{Kind::kRegex, TRY(read_string(value, field)), field};
}

Format grammar_format(const JsonValue& value, const std::string& field) {
  return ResponseFormat{Kind::kEbnf, TRY(read_string(value, field)), field};
}

// One of some texts, as an expression.
Format choice_format(const JsonValue& value, const std::string& field) {
  TRY(expect_array(value, field));
  if (value.items.empty()) return bad_field(field, "expected at least one choice");
  std::string pattern;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) pattern += '|';
    const std::string text = TRY(read_string(value.items[i], fmt::format("{}[{}]", field, i)));
    for (const char c : text) {
      if (std::string_view("^$\\.*+?()[]{}|/").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  return ResponseFormat{Kind::kRegex, std::move(pattern), field};
}

// OpenAI's {name, schema, strict, description}.
Format named_schema_format(const JsonValue& value, const std::string& field) {
  TRY(expect_object(value, field));
  const JsonValue* name = find_member(value, "name");
  if (name == nullptr) return bad_field(field + ".name", "is required");
  TRY(read_string(*name, field + ".name"));
  const JsonValue* strict = find_member(value, "strict");
  if (strict != nullptr && !is_null(*strict)) TRY(read_bool(*strict, field + ".strict"));
  const JsonValue* schema = find_member(value, "schema");
  if (schema == nullptr) return bad_field(field + ".schema", "is required");
  TRY(expect_object(*schema, field + ".schema"));
  return schema_format(*schema, field + ".schema");
}

Format response_format(const JsonValue& value, const std::string& field) {
  constexpr std::string_view kTypes = "text, json_object or json_schema";
  TRY(expect_object(value, field));
  const JsonValue* type = find_member(value, "type");
  if (type == nullptr) return bad_field(field + ".type", "is required");
  const std::string name = TRY(read_string(*type, field + ".type"));
  if (name == "text") return ResponseFormat{};
  if (name == "json_object") return ResponseFormat{Kind::kJsonObject, {}, field};
  if (name != "json_schema") return bad_field(field + ".type", kTypes, *type);
  const JsonValue* schema = find_member(value, "json_schema");
  if (schema == nullptr) return bad_field(field + ".json_schema", "is required");
  return named_schema_format(*schema, field + ".json_schema");
}

struct Spelling {
  const char* name;
  Format (*read)(const JsonValue& value, const std::string& field);
};

constexpr Spelling kOutputs[] = {{"json", schema_format},
                                 {"regex", regex_format},
                                 {"choice", choice_format},
                                 {"grammar", grammar_format}};

// vLLM's object, one of whose members says what.
Format structured_outputs(const JsonValue& value, const std::string& field) {
  TRY(expect_object(value, field));
  ResponseFormat format;
  for (const Spelling& spelling : kOutputs) {
    const JsonValue* member = find_member(value, spelling.name);
    if (member == nullptr || is_null(*member)) continue;
    if (format.kind != Kind::kText) return bad_field(field, "asks for more than one form");
    format = TRY(spelling.read(*member, fmt::format("{}.{}", field, spelling.name)));
  }
  const JsonValue* object = find_member(value, "json_object");
  if (object != nullptr && !is_null(*object) && TRY(read_bool(*object, field + ".json_object"))) {
    if (format.kind != Kind::kText) return bad_field(field, "asks for more than one form");
    format = {Kind::kJsonObject, {}, field};
  }
  if (format.kind == Kind::kText) {
    return bad_field(field, "expected json, regex, choice, grammar or json_object");
  }
  return format;
}

constexpr Spelling kSpellings[] = {{"response_format", response_format},
                                   {"json_schema", schema_format},
                                   {"regex", regex_format},
                                   {"ebnf", grammar_format},
                                   {"grammar", grammar_format},
                                   {"structured_outputs", structured_outputs},
                                   {"guided_json", schema_format},
                                   {"guided_regex", regex_format},
                                   {"guided_choice", choice_format},
                                   {"guided_grammar", grammar_format}};

}  // namespace

Result<ResponseFormat> read_answer_format(const JsonValue& body) {
  ResponseFormat format;
  const char* first = nullptr;
  for (const Spelling& spelling : kSpellings) {
    const JsonValue* value = find_member(body, spelling.name);
    // Empty text asks for nothing.
    if (value == nullptr || is_null(*value) ||
        (value->kind == JsonValue::Kind::kString && value->text.empty())) {
      continue;
    }
    ResponseFormat read = TRY(spelling.read(*value, spelling.name));
    if (read.kind == Kind::kText) continue;
    if (first != nullptr) {
      return bad_field(spelling.name, fmt::format("cannot be combined with {}", first));
    }
    first = spelling.name;
    format = std::move(read);
  }
  return format;
}

}  // namespace tandem
