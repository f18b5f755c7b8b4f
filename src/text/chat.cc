#include "text/chat.h"

#include <algorithm>
#include <array>

#include "text/chat_common.h"
#include "text/json_text.h"

namespace tandem {

bool Content::empty() const {
  return std::all_of(parts.begin(), parts.end(),
                     [](const ContentPart& part) { return part.text.empty() && !part.image; });
}

Result<ChatFamily> detect_chat_family(const Tokenizer& tokenizer) {
  const auto has_all = [&](std::initializer_list<std::string_view> names) {
    return std::all_of(names.begin(), names.end(),
                       [&](std::string_view name) { return tokenizer.id_of(name).has_value(); });
  };
  if (has_all({"<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"})) return ChatFamily::kK3;
  if (has_all(
          {"<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "<|im_end|>"})) {
    return ChatFamily::kKimiLinear;
  }
  return invalid(
      "the tokenizer names neither Kimi K3's <|open|>, <|close|>, <|sep|>, <|end_of_msg|> nor Kimi "
      "Linear's <|im_user|>, <|im_assistant|>, <|im_system|>, <|im_middle|>, <|im_end|>: no chat "
      "format fits");
}

std::unique_ptr<ChatFormat> make_chat_format(ChatFamily family, const Tokenizer& tokenizer) {
  return family == ChatFamily::kK3 ? make_k3_chat_format(tokenizer)
                                   : make_kimi_linear_chat_format(tokenizer);
}

std::vector<TokenId> stop_ids(const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (const char* name : {"<|end_of_msg|>", "<|im_end|>", "[EOS]", "[EOT]"}) {
    if (const auto id = tokenizer.id_of(name)) ids.push_back(*id);
  }
  return ids;
}

tl::unexpected<Status> invalid_field(std::string field, std::string message) {
  return fail(Status{StatusCode::kInvalidArgument, std::move(message), std::move(field)});
}

void PromptBuilder::add(std::string_view text, Segment::Mode mode) {
  if (text.empty()) return;
  if (neighbours_ == Neighbours::kMerge && !segments_.empty() && mode == Segment::Mode::kPlain &&
      segments_.back().mode == Segment::Mode::kPlain) {
    segments_.back().text += text;
    return;
  }
  segments_.push_back({std::string(text), mode});
}

Prompt PromptBuilder::finish(OutputStart start, int tool_calls_before) {
  Prompt prompt;
  for (const Segment& segment : segments_) {
    const std::vector<TokenId> ids = segment.mode == Segment::Mode::kMarkup
                                         ? tokenizer_.encode_markup(segment.text)
                                         : tokenizer_.encode_plain(segment.text);
    prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
    prompt.text += segment.text;
  }
  prompt.segments = std::move(segments_);
  prompt.start = start;
  prompt.tool_calls_before = tool_calls_before;
  return prompt;
}

Result<void> check_messages(const ChatRequest& request) {
  constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                      "tool"};
  if (request.messages.empty()) return invalid_field("messages", "expected at least one message");
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    const ChatMessage& message = request.messages[i];
    const std::string field = fmt::format("messages[{}]", i);
    if (std::find(kRoles.begin(), kRoles.end(), message.role) == kRoles.end()) {
      return invalid_field(field + ".role",
                           fmt::format("unknown role \"{}\"; expected system, developer, user, "
                                       "assistant or tool",
                                       message.role));
    }
    const bool system = message.role == "system" || message.role == "developer";
    if (!message.tools.empty() && !system) {
      return invalid_field(field + ".tools", "only a system message may add tools");
    }
    if (!message.tools.empty() && !message.content.empty()) {
      return invalid_field(field + ".content", "expected none beside tools");
    }
    if (!message.tool_calls.empty() && message.role != "assistant") {
      return invalid_field(field + ".tool_calls", "only an assistant message may call tools");
    }
    for (std::size_t k = 0; k < message.tool_calls.size(); ++k) {
      if (message.tool_calls[k].name.empty()) {
        return invalid_field(fmt::format("{}.tool_calls[{}].function.name", field, k),
                             "expected a name");
      }
    }
  }
  const ChatMessage& last = request.messages.back();
  if (request.continue_final_message && (last.role != "assistant" || !last.tool_calls.empty())) {
    return invalid_field(fmt::format("messages[{}]", request.messages.size() - 1),
                         "only an assistant message without tool calls can be continued");
  }
  return {};
}

Result<std::string> tools_json(const std::vector<std::string>& tools, const std::string& field) {
  JsonValue array{JsonValue::Kind::kArray, {}, {}, {}};
  for (std::size_t i = 0; i < tools.size(); ++i) {
    Result<JsonValue> tool = parse_json(tools[i]);
    if (!tool || tool->kind != JsonValue::Kind::kObject) {
      return invalid_field(fmt::format("{}[{}]", field, i),
                           tool ? "expected a JSON object" : tool.error().message);
    }
    array.items.push_back(*std::move(tool));
  }
  return to_json(array, JsonStyle::kCompactSorted);
}

std::vector<DeclaredTool> declared_tools(const ChatRequest& request) {
  std::vector<DeclaredTool> declared;
  const auto add = [&](const std::vector<std::string>& tools, const std::string& field) {
    for (std::size_t i = 0; i < tools.size(); ++i) {
      const auto tool = parse_json(tools[i]);
      const JsonValue* function = tool ? find_member(*tool, "function") : nullptr;
      const JsonValue* name = function != nullptr ? find_member(*function, "name") : nullptr;
      if (name == nullptr) continue;
      const JsonValue* parameters = find_present(*function, "parameters");
      const JsonValue* strict = find_member(*function, "strict");
      declared.push_back(
          {.name = name->text,
           .parameters = parameters != nullptr ? to_json(*parameters, JsonStyle::kSpaced) : "",
           .strict = strict != nullptr && strict->text == "true",
           .field = fmt::format("{}[{}]", field, i)});
    }
  };
  add(request.tools, "tools");
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    add(request.messages[i].tools, fmt::format("messages[{}].tools", i));
  }
  return declared;
}

int count_tool_calls(const ChatRequest& request) {
  std::size_t count = 0;
  for (const ChatMessage& message : request.messages) count += message.tool_calls.size();
  return static_cast<int>(count);
}

}  // namespace tandem
