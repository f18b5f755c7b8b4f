#include "serve/answer_format.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using Kind = ResponseFormat::Kind;

Result<ResponseFormat> read(std::string_view body) {
  return read_answer_format(*parse_json_object(body));
}

struct Case {
  const char* body;
  Kind kind;
  const char* source;
  const char* field;
};

TEST(AnswerFormat, every_spelling_says_what_and_where) {
  const Case cases[] = {
      {R"({"response_format": {"type": "json_object"}})", Kind::kJsonObject, "", "response_format"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true,
          "schema": {"type": "object", "a": 1}}}})",
       Kind::kJsonSchema, R"({"type": "object", "a": 1})", "response_format.json_schema.schema"},
      {R"({"json_schema": "{\"type\": \"null\"}"})", Kind::kJsonSchema, R"({"type": "null"})",
       "json_schema"},
      {R"({"regex": "a+"})", Kind::kRegex, "a+", "regex"},
      {R"({"ebnf": "root ::= x"})", Kind::kEbnf, "root ::= x", "ebnf"},
      {R"({"grammar": "root ::= x"})", Kind::kEbnf, "root ::= x", "grammar"},
      {R"({"structured_outputs": {"json": {"type": "null"}, "regex": null}})", Kind::kJsonSchema,
       R"({"type": "null"})", "structured_outputs.json"},
      {R"({"structured_outputs": {"json_object": true}})", Kind::kJsonObject, "",
       "structured_outputs"},
      {R"({"structured_outputs": {"choice": ["a.b", "c|d"]}})", Kind::kRegex, R"(a\.b|c\|d)",
       "structured_outputs.choice"},
      {R"({"guided_json": true})", Kind::kJsonSchema, "true", "guided_json"},
      {R"({"guided_regex": "b"})", Kind::kRegex, "b", "guided_regex"},
      {R"({"guided_choice": ["yes"]})", Kind::kRegex, "yes", "guided_choice"},
      {R"({"guided_grammar": "g"})", Kind::kEbnf, "g", "guided_grammar"},
  };
  for (const Case& one : cases) {
    const auto format = read(one.body);
    ASSERT_TRUE(format) << one.body << format.error().message;
    EXPECT_EQ(format->kind, one.kind) << one.body;
    EXPECT_EQ(format->source, one.source) << one.body;
    EXPECT_EQ(format->field, one.field) << one.body;
  }
}

TEST(AnswerFormat, none_null_and_text_ask_for_nothing) {
  for (const char* body :
       {"{}", R"({"regex": null})", R"({"regex": ""})", R"({"response_format": {"type": "text"}})",
        R"({"response_format": {"type": "text"}, "regex": null})"}) {
    EXPECT_EQ(read(body)->kind, Kind::kText) << body;
  }
}

TEST(AnswerFormat, errors_name_the_field) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"response_format": "json"})", "response_format"},
      {R"({"response_format": {}})", "response_format.type"},
      {R"({"response_format": {"type": "xml"}})", "response_format.type"},
      {R"({"response_format": {"type": "json_schema"}})", "response_format.json_schema"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}})",
       "response_format.json_schema.name"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}})",
       "response_format.json_schema.schema"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": 5}}})",
       "response_format.json_schema.schema"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {},
          "strict": "yes"}}})",
       "response_format.json_schema.strict"},
      {R"({"regex": 5})", "regex"},
      {R"({"guided_json": 5})", "guided_json"},
      {R"({"guided_choice": []})", "guided_choice"},
      {R"({"guided_choice": ["a", 1]})", "guided_choice[1]"},
      {R"({"structured_outputs": {}})", "structured_outputs"},
      {R"({"structured_outputs": {"regex": "a", "grammar": "b"}})", "structured_outputs"},
      {R"({"regex": "a", "ebnf": "b"})", "ebnf"},
      {R"({"response_format": {"type": "json_object"}, "guided_regex": "b"})", "guided_regex"},
  };
  for (const auto& [body, field] : cases) {
    const auto format = read(body);
    ASSERT_FALSE(format) << body;
    EXPECT_EQ(format.error().field, field) << body;
  }
}

}  // namespace
}  // namespace tandem
