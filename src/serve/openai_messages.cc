#include "serve/openai_messages.h"

#include <algorithm>
#include <array>

namespace tandem {
namespace {

constexpr std::size_t kMaxToolNameBytes = 256;

// ^[A-Za-z_][A-Za-z0-9_-]*$
bool is_tool_name(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && name.size() <= kMaxToolNameBytes && letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-'; });
}

Result<std::string> optional_string(const JsonValue& object, std::string_view key,
                                    const std::string& field) {
  const JsonValue* value = find_present(object, key);
  if (value == nullptr) return std::string();
  return read_string(*value, fmt::format("{}.{}", field, key));
}

Result<ContentPart> parse_part(const JsonValue& value, const std::string& field) {
  TRY(expect_object(value, field));
  const JsonValue* type = find_member(value, "type");
  if (type == nullptr) return bad_field(field + ".type", "is required");
  const std::string name = TRY(read_string(*type, field + ".type"));
  if (name != "text") {
    return bad_field(field + ".type", fmt::format("parts of type \"{}\" are not supported; "
                                                  "expected \"text\"",
                                                  name.substr(0, 60)));
  }
  const JsonValue* text = find_member(value, "text");
  if (text == nullptr) return bad_field(field + ".text", "is required");
  return ContentPart{TRY(read_string(*text, field + ".text"))};
}

Result<Content> parse_content(const JsonValue& value, const std::string& field) {
  if (value.kind == JsonValue::Kind::kString) return Content(value.text);
  if (value.kind != JsonValue::Kind::kArray) {
    return bad_field(field, "a string or a list of parts", value);
  }
  Content content;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    content.parts.push_back(TRY(parse_part(value.items[i], fmt::format("{}[{}]", field, i))));
  }
  return content;
}

Result<ToolCall> parse_tool_call(const JsonValue& value, const std::string& field) {
  TRY(expect_object(value, field));
  ToolCall call;
  call.id = TRY(optional_string(value, "id", field));
  const std::string type = TRY(optional_string(value, "type", field));
  if (!type.empty() && type != "function") {
    return bad_field(field + ".type", "expected \"function\"");
  }
  const JsonValue* function = find_member(value, "function");
  if (function == nullptr) return bad_field(field + ".function", "is required");
  TRY(expect_object(*function, field + ".function"));
  call.name = TRY(optional_string(*function, "name", field + ".function"));
  if (call.name.empty()) return bad_field(field + ".function.name", "is required");
  if (const JsonValue* arguments = find_present(*function, "arguments")) {
    call.arguments = arguments->kind == JsonValue::Kind::kObject
                         ? to_json(*arguments, JsonStyle::kSpaced)
                         : TRY(read_string(*arguments, field + ".function.arguments"));
  }
  return call;
}

Result<std::vector<ToolCall>> parse_tool_calls(const JsonValue& value, const std::string& field) {
  TRY(expect_array(value, field));
  std::vector<ToolCall> calls;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    calls.push_back(TRY(parse_tool_call(value.items[i], fmt::format("{}[{}]", field, i))));
  }
  return calls;
}

Result<std::string> parse_role(const JsonValue& message, const std::string& field) {
  constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                      "tool"};
  const JsonValue* value = find_member(message, "role");
  if (value == nullptr) return bad_field(field + ".role", "is required");
  std::string role = TRY(read_string(*value, field + ".role"));
  if (role == "function") {
    return bad_field(field + ".role",
                     "\"function\" is out of use; send role \"tool\" with a "
                     "tool_call_id");
  }
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
    return bad_field(field + ".role", "system, developer, user, assistant or tool", *value);
  }
  return role;
}

// What only some roles have.
Result<void> parse_role_fields(const JsonValue& value, const std::string& field,
                               Conversation& conversation, ChatMessage& message) {
  if (const JsonValue* tools = find_present(value, "tools")) {
    message.tools = TRY(parse_tools(*tools, field + ".tools", conversation));
  }
  if (const JsonValue* calls = find_present(value, "tool_calls")) {
    message.tool_calls = TRY(parse_tool_calls(*calls, field + ".tool_calls"));
  }
  if (message.role == "assistant") {
    const char* reasoning =
        find_present(value, "reasoning_content") ? "reasoning_content" : "reasoning";
    message.reasoning = TRY(optional_string(value, reasoning, field));
  }
  if (message.role == "tool") {
    message.tool_call_id = TRY(optional_string(value, "tool_call_id", field));
    if (message.tool_call_id.empty()) return bad_field(field + ".tool_call_id", "is required");
  }
  return {};
}

Result<ChatMessage> parse_message(const JsonValue& value, const std::string& field,
                                  Conversation& conversation) {
  TRY(expect_object(value, field));
  ChatMessage message{.role = TRY(parse_role(value, field))};
  message.name = TRY(optional_string(value, "name", field));
  TRY(parse_role_fields(value, field, conversation, message));
  if (const JsonValue* content = find_present(value, "content")) {
    message.content = TRY(parse_content(*content, field + ".content"));
  } else if (message.role != "assistant" && message.role != "tool" && message.tools.empty()) {
    return bad_field(field + ".content", "is required for this role");
  }
  return message;
}

}  // namespace

Result<void> parse_messages(const JsonValue& value, Conversation& conversation) {
  TRY(expect_array(value, "messages"));
  if (value.items.empty()) return bad_field("messages", "expected at least one message");
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const std::string field = fmt::format("messages[{}]", i);
    conversation.messages.push_back(TRY(parse_message(value.items[i], field, conversation)));
  }
  if (const JsonValue* partial = find_present(value.items.back(), "partial")) {
    conversation.continue_last =
        TRY(read_bool(*partial, fmt::format("messages[{}].partial", value.items.size() - 1)));
  }
  return {};
}

Result<std::vector<std::string>> parse_tools(const JsonValue& value, const std::string& field,
                                             Conversation& conversation) {
  TRY(expect_array(value, field));
  std::vector<std::string> tools;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const JsonValue& tool = value.items[i];
    TRY(expect_object(tool, at));
    const std::string type = TRY(optional_string(tool, "type", at));
    if (type != "function") return bad_field(at + ".type", "expected \"function\"");
    const JsonValue* function = find_member(tool, "function");
    if (function == nullptr) return bad_field(at + ".function", "is required");
    TRY(expect_object(*function, at + ".function"));
    const std::string name = TRY(optional_string(*function, "name", at + ".function"));
    TRY(optional_string(*function, "description", at + ".function"));
    if (const JsonValue* schema = find_present(*function, "parameters")) {
      TRY(expect_object(*schema, at + ".function.parameters"));
    }
    if (const JsonValue* strict = find_present(*function, "strict")) {
      TRY(read_bool(*strict, at + ".function.strict"));
    }
    if (!is_tool_name(name)) {
      return bad_field(at + ".function.name",
                       "expected a letter or _, then letters, digits, _ and -, at most 256 in all");
    }
    if (!conversation.tool_names.insert(name).second) {
      return bad_field(at + ".function.name", fmt::format("\"{}\" is declared twice", name));
    }
    tools.push_back(to_json(tool, JsonStyle::kSpaced));
  }
  return tools;
}

}  // namespace tandem
