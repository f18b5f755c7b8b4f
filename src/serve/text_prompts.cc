#include "serve/text_prompts.h"

#include <limits>

namespace tandem {
namespace {

constexpr std::size_t kMaxPrompts = 1024;

bool is_number(const JsonValue& value) { return value.kind == JsonValue::Kind::kNumber; }

Result<TextPrompt> read_ids(const JsonValue& value, const std::string& field) {
  TextPrompt prompt{.ids = {}, .field = field};
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const JsonValue& id = value.items[i];
    if (!is_number(id)) return bad_field(fmt::format("{}[{}]", field, i), "a token id", id);
    prompt.ids.push_back(static_cast<TokenId>(TRY(read_integer(
        id, fmt::format("{}[{}]", field, i), 0, std::numeric_limits<TokenId>::max()))));
  }
  return prompt;
}

Result<TextPrompt> read_prompt(const JsonValue& value, const std::string& field,
                               const Tokenizer& tokenizer) {
  if (value.kind == JsonValue::Kind::kString) {
    return TextPrompt{tokenizer.encode_markup(value.text), field};
  }
  if (value.kind == JsonValue::Kind::kArray) return read_ids(value, field);
  return bad_field(field, "a string or a list of token ids", value);
}

}  // namespace

Result<TextPrompts> read_text_prompts(const JsonValue& value, const std::string& field,
                                      const Tokenizer& tokenizer) {
  const bool is_list = value.kind == JsonValue::Kind::kArray &&
                       (value.items.empty() || !is_number(value.items.front()));
  if (!is_list) return TextPrompts{{TRY(read_prompt(value, field, tokenizer))}, false};
  if (value.items.empty()) return bad_field(field, "is empty");
  if (value.items.size() > kMaxPrompts) {
    return bad_field(
        field, fmt::format("expected at most {} prompts, got {}", kMaxPrompts, value.items.size()));
  }
  TextPrompts all{.prompts = {}, .is_list = true};
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    all.prompts.push_back(
        TRY(read_prompt(value.items[i], fmt::format("{}[{}]", field, i), tokenizer)));
  }
  return all;
}

}  // namespace tandem
