// docs/api.md says what every field does; here each row is tried.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "serve/completion_request.h"
#include "serve/generate_request.h"
#include "serve/openai_request.h"

namespace tandem {
namespace {

struct Row {
  std::string field;
  std::string example;
  std::vector<std::string> routes;  // chat, completions, generate
};

std::string trimmed(std::string text) {
  const auto strip = [](char c) { return c == ' ' || c == '`'; };
  while (!text.empty() && strip(text.front())) text.erase(0, 1);
  while (!text.empty() && strip(text.back())) text.pop_back();
  return text;
}

std::vector<Row> read_table() {
  std::ifstream file(std::string(TANDEM_SOURCE_DIR) + "/docs/api.md");
  std::vector<Row> rows;
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 1; at < line.size();) {
      const std::size_t end = line.find(" | ", at);
      cells.push_back(trimmed(line.substr(at, end == std::string::npos ? end : end - at)));
      if (end == std::string::npos) break;
      at = end + 3;
    }
    rows.push_back({cells.at(0), cells.at(1), {cells.at(2), cells.at(3), cells.at(4)}});
  }
  return rows;
}

const Tokenizer& tokenizer() {
  static const auto loaded =
      Tokenizer::load(std::filesystem::path(TANDEM_SOURCE_DIR) / "models/demo", 4096).value();
  return *loaded;
}

std::string described(const Result<GenerationFields>& fields, const std::string& name) {
  if (!fields) {
    const std::string& field = fields.error().field;
    return field.starts_with(name) ? "refused" : "refused for " + field;
  }
  if (fields->unknown_fields > 0) return "unknown";
  for (const std::string_view ineffective : ineffective_field_names()) {
    if (ineffective == name) return "no effect";
  }
  return "yes";
}

// A body with `row`'s example, and whatever the route requires.
std::string body_with(const Row& row, const std::string& required, const std::string& value) {
  std::string body = "{\"" + row.field + "\":" + row.example;
  const bool has_input = row.field == required || (row.field == "input_ids" && required == "text");
  if (!has_input) body += ",\"" + required + "\":" + value;
  return body + "}";
}

Result<GenerationFields> chat_fields(const Row& row) {
  return TRY(
      parse_chat_completion(body_with(row, "messages", R"([{"role":"user","content":"hi"}])"), {}));
}
Result<GenerationFields> completion_fields(const Row& row) {
  return TRY(parse_completion(body_with(row, "prompt", "\"hi\""), {}, tokenizer()));
}
Result<GenerationFields> native_fields(const Row& row) {
  return TRY(parse_native(body_with(row, "text", "\"hi\""), {}, tokenizer()));
}

TEST(ApiTable, every_row_is_what_the_parsers_do) {
  const auto rows = read_table();
  ASSERT_GT(rows.size(), 100u);
  for (const Row& row : rows) {
    EXPECT_EQ(described(chat_fields(row), row.field), row.routes[0]) << row.field << " in a chat";
    EXPECT_EQ(described(completion_fields(row), row.field), row.routes[1])
        << row.field << " in a completion";
    EXPECT_EQ(described(native_fields(row), row.field), row.routes[2])
        << row.field << " in /generate";
  }
}

TEST(ApiTable, has_every_field_that_a_parser_knows) {
  std::set<std::string> documented;
  for (const Row& row : read_table()) {
    EXPECT_TRUE(documented.insert(row.field).second) << row.field << " stands there twice";
  }
  for (const auto& names :
       {shared_field_names(), refused_field_names(), ineffective_field_names(), chat_field_names(),
        chat_refused_names(), completion_field_names(), native_field_names()}) {
    for (const std::string_view name : names) {
      EXPECT_TRUE(documented.contains(std::string(name))) << name;
    }
  }
}

}  // namespace
}  // namespace tandem
