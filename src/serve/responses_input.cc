#include "serve/responses_input.h"

#include <string>
#include <string_view>
#include <utility>

#include "serve/conversation_turns.h"

namespace tandem {
namespace {

Result<std::string> read_part(const JsonValue& part, const std::string& field) {
  TRY(expect_object(part, field));
  const std::string type = TRY(required_string(part, "type", field));
  if (type == "input_text" || type == "output_text" || type == "text") {
    return required_string(part, "text", field);
  }
  if (type == "refusal") return required_string(part, "refusal", field);
  if (type == "input_image") {
    return bad_field(field + ".type", "this server does not read images");
  }
  return bad_field(field + ".type",
                   fmt::format("parts of type \"{}\" are not supported", type.substr(0, 60)));
}

// A string or a list of parts.
Result<Content> read_content(const JsonValue& value, const std::string& field) {
  if (value.kind == JsonValue::Kind::kString) return Content(value.text);
  if (value.kind != JsonValue::Kind::kArray) {
    return bad_field(field, "a string or a list of parts", value);
  }
  Content content;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    content.parts.push_back({TRY(read_part(value.items[i], fmt::format("{}[{}]", field, i)))});
  }
  return content;
}

Result<Content> required_content(const JsonValue& item, std::string_view key,
                                 const std::string& field) {
  const std::string at = fmt::format("{}.{}", field, key);
  const JsonValue* value = find_present(item, key);
  if (value == nullptr) return bad_field(at, "is required");
  return read_content(*value, at);
}

// The texts of a list of {type, text}; empty if there is none.
Result<std::string> joined_texts(const JsonValue& item, std::string_view key,
                                 const std::string& field) {
  const JsonValue* list = find_present(item, key);
  if (list == nullptr) return std::string();
  const std::string at = fmt::format("{}.{}", field, key);
  TRY(expect_array(*list, at));
  std::string text;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const std::string part = fmt::format("{}[{}]", at, i);
    TRY(expect_object(list->items[i], part));
    text += TRY(required_string(list->items[i], "text", part));
  }
  return text;
}

// Collects the conversation item by item.
class Reader {
 public:
  Result<void> item(const JsonValue& value, const std::string& field) {
    TRY(expect_object(value, field));
    // Messages may do without a type.
    const bool has_type = find_present(value, "type") != nullptr;
    const std::string type = has_type ? TRY(required_string(value, "type", field)) : "message";
    if (type == "message") return message(value, field);
    if (type == "reasoning") return reasoning(value, field);
    if (type == "function_call") return function_call(value, field);
    if (type == "function_call_output") return function_call_output(value, field);
    if (type == "item_reference") {
      return bad_field(field + ".type", "this server keeps no items; send the item itself");
    }
    return bad_field(field + ".type",
                     fmt::format("items of type \"{}\" are not supported", type.substr(0, 60)));
  }

  std::vector<ChatMessage> take() { return std::move(messages_); }

 private:
  Result<void> message(const JsonValue& value, const std::string& field) {
    const std::string role = TRY(required_string(value, "role", field));
    Content content = TRY(required_content(value, "content", field));
    if (role == "assistant") {
      std::vector<ContentPart>& parts = assistant_turn(messages_).content.parts;
      for (ContentPart& part : content.parts) parts.push_back(std::move(part));
      return {};
    }
    if (role != "user" && role != "system" && role != "developer") {
      return bad_field(field + ".role", "expected user, assistant, system or developer");
    }
    messages_.push_back({.role = role, .content = std::move(content)});
    return {};
  }

  // What was thought in full, or else its summary.
  Result<void> reasoning(const JsonValue& value, const std::string& field) {
    std::string text = TRY(joined_texts(value, "content", field));
    if (text.empty()) text = TRY(joined_texts(value, "summary", field));
    if (!text.empty()) assistant_turn(messages_).reasoning += text;
    return {};
  }

  Result<void> function_call(const JsonValue& value, const std::string& field) {
    ToolCall call;
    call.id = TRY(required_string(value, "call_id", field));
    call.name = TRY(required_string(value, "name", field));
    call.arguments = TRY(required_string(value, "arguments", field));
    if (call.name.empty()) return bad_field(field + ".name", "is empty");
    // What is no JSON may be what a model wrote, and is passed on.
    const auto arguments = parse_json(call.arguments);
    if (arguments && arguments->kind != JsonValue::Kind::kObject) {
      return bad_field(field + ".arguments", "expected the text of a JSON object");
    }
    assistant_turn(messages_).tool_calls.push_back(std::move(call));
    return {};
  }

  Result<void> function_call_output(const JsonValue& value, const std::string& field) {
    ChatMessage message{.role = "tool"};
    message.tool_call_id = TRY(required_string(value, "call_id", field));
    if (!answers_last_turn(messages_, message.tool_call_id)) {
      return bad_field(field + ".call_id", fmt::format("\"{}\" is no call of the turn before",
                                                       message.tool_call_id.substr(0, 60)));
    }
    message.content = TRY(required_content(value, "output", field));
    messages_.push_back(std::move(message));
    return {};
  }

  std::vector<ChatMessage> messages_;
};

}  // namespace

Result<std::vector<ChatMessage>> parse_responses_input(const JsonValue& value) {
  if (value.kind == JsonValue::Kind::kString) {
    return std::vector<ChatMessage>{{.role = "user", .content = value.text}};
  }
  if (value.kind != JsonValue::Kind::kArray) {
    return bad_field("input", "a string or a list of items", value);
  }
  Reader reader;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    TRY(reader.item(value.items[i], fmt::format("input[{}]", i)));
  }
  std::vector<ChatMessage> messages = reader.take();
  if (messages.empty()) return bad_field("input", "expected at least one message");
  return messages;
}

}  // namespace tandem
