#include "serve/messages_conversation.h"

#include <string>
#include <utility>

#include "serve/conversation_turns.h"

namespace tandem {
namespace {

constexpr std::string_view kBillingLine = "x-anthropic-billing-header:";

tl::unexpected<Status> unexpected_block(const std::string& type, const std::string& field) {
  if (type == "image") return bad_field(field + ".type", "this server does not read images");
  return bad_field(field + ".type",
                   fmt::format("blocks of type \"{}\" are not supported here", type.substr(0, 60)));
}

Result<std::string> read_text_block(const JsonValue& block, const std::string& field) {
  TRY(expect_object(block, field));
  const std::string type = TRY(required_string(block, "type", field));
  if (type != "text") return unexpected_block(type, field);
  return required_string(block, "text", field);
}

// A string or a list of text blocks.
Result<Content> read_texts(const JsonValue& value, const std::string& field) {
  if (value.kind == JsonValue::Kind::kString) return Content(value.text);
  if (value.kind != JsonValue::Kind::kArray) {
    return bad_field(field, "a string or a list of blocks", value);
  }
  Content content;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    content.parts.push_back({TRY(read_text_block(value.items[i], fmt::format("{}.{}", field, i)))});
  }
  return content;
}

// Collects the conversation message by message.
class Reader {
 public:
  Result<void> message(const JsonValue& value, const std::string& field) {
    TRY(expect_object(value, field));
    const std::string role = TRY(required_string(value, "role", field));
    const JsonValue* content = find_present(value, "content");
    if (content == nullptr) return bad_field(field + ".content", "is required");
    if (role == "assistant") return assistant(*content, field + ".content");
    if (role == "user") return user(*content, field + ".content");
    if (role != "system") return bad_field(field + ".role", "expected user, assistant or system");
    Content texts = TRY(read_texts(*content, field + ".content"));
    messages_.push_back({.role = role, .content = std::move(texts)});
    return {};
  }

  std::vector<ChatMessage> take() { return std::move(messages_); }

 private:
  Result<void> user(const JsonValue& content, const std::string& field) {
    if (content.kind != JsonValue::Kind::kArray) {
      Content text = TRY(read_texts(content, field));
      messages_.push_back({.role = "user", .content = std::move(text)});
      return {};
    }
    Content texts;  // since the last tool result
    for (std::size_t i = 0; i < content.items.size(); ++i) {
      const JsonValue& block = content.items[i];
      const std::string at = fmt::format("{}.{}", field, i);
      TRY(expect_object(block, at));
      if (TRY(required_string(block, "type", at)) != "tool_result") {
        texts.parts.push_back({TRY(read_text_block(block, at))});
        continue;
      }
      flush_user(texts);
      TRY(tool_result(block, at));
    }
    flush_user(texts);
    return {};
  }

  void flush_user(Content& texts) {
    if (texts.parts.empty()) return;
    messages_.push_back({.role = "user", .content = std::exchange(texts, {})});
  }

  Result<void> tool_result(const JsonValue& block, const std::string& field) {
    ChatMessage message{.role = "tool"};
    message.tool_call_id = TRY(required_string(block, "tool_use_id", field));
    if (!answers_last_turn(messages_, message.tool_call_id)) {
      return bad_field(field + ".tool_use_id",
                       fmt::format("\"{}\" is no tool_use of the assistant's turn before",
                                   message.tool_call_id.substr(0, 60)));
    }
    if (const JsonValue* content = find_present(block, "content")) {
      message.content = TRY(read_texts(*content, field + ".content"));
    }
    messages_.push_back(std::move(message));
    return {};
  }

  Result<void> assistant(const JsonValue& content, const std::string& field) {
    ChatMessage& turn = assistant_turn(messages_);
    if (content.kind != JsonValue::Kind::kArray) {
      const Content text = TRY(read_texts(content, field));
      turn.content.parts.insert(turn.content.parts.end(), text.parts.begin(), text.parts.end());
      return {};
    }
    for (std::size_t i = 0; i < content.items.size(); ++i) {
      TRY(assistant_block(content.items[i], fmt::format("{}.{}", field, i), turn));
    }
    return {};
  }

  Result<void> assistant_block(const JsonValue& block, const std::string& field,
                               ChatMessage& turn) {
    TRY(expect_object(block, field));
    const std::string type = TRY(required_string(block, "type", field));
    if (type == "thinking") {
      turn.reasoning += TRY(required_string(block, "thinking", field));
    } else if (type == "tool_use") {
      turn.tool_calls.push_back(TRY(tool_use(block, field)));
    } else if (type != "redacted_thinking") {  // nobody here can read that
      turn.content.parts.push_back({TRY(read_text_block(block, field))});
    }
    return {};
  }

  static Result<ToolCall> tool_use(const JsonValue& block, const std::string& field) {
    ToolCall call;
    call.id = TRY(required_string(block, "id", field));
    call.name = TRY(required_string(block, "name", field));
    if (call.name.empty()) return bad_field(field + ".name", "is empty");
    const JsonValue* input = find_present(block, "input");
    if (input == nullptr) return bad_field(field + ".input", "is required");
    TRY(expect_object(*input, field + ".input"));
    call.arguments = to_json(*input, JsonStyle::kSpaced);
    return call;
  }

  std::vector<ChatMessage> messages_;
};

}  // namespace

Result<ChatMessage> parse_system(const JsonValue& value) {
  Content texts = TRY(read_texts(value, "system"));
  ChatMessage message{.role = "system", .content = std::move(texts)};
  std::erase_if(message.content.parts,
                [](const ContentPart& part) { return part.text.starts_with(kBillingLine); });
  return message;
}

Result<std::vector<ChatMessage>> parse_message_list(const JsonValue& value) {
  TRY(expect_array(value, "messages"));
  if (value.items.empty()) return bad_field("messages", "expected at least one message");
  Reader reader;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    TRY(reader.message(value.items[i], fmt::format("messages.{}", i)));
  }
  std::vector<ChatMessage> messages = reader.take();
  if (messages.empty() ||
      (messages.back().role == "assistant" && !messages.back().tool_calls.empty())) {
    return bad_field(fmt::format("messages.{}.content", value.items.size() - 1),
                     "expected text or, after calls, their results");
  }
  return messages;
}

}  // namespace tandem
