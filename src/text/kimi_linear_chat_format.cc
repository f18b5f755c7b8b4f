// The prompt of Kimi Linear (and Kimi K2): `ROLE name <|im_middle|> body <|im_end|>`.
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <unordered_map>

#include "text/chat_common.h"

namespace tandem {
namespace {

// `functions.NAME:INDEX`, the only form of ids that these models were trained on.
bool is_trained_id(std::string_view id) {
  constexpr std::string_view kPrefix = "functions.";
  const std::size_t colon = id.rfind(':');
  if (!id.starts_with(kPrefix) || colon == std::string_view::npos || colon <= kPrefix.size()) {
    return false;
  }
  const std::string_view index = id.substr(colon + 1);
  return !index.empty() && std::all_of(index.begin(), index.end(),
                                       [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Writes one prompt. Neighbouring plain texts merge: byte pairs join between the template's words
// and the caller's, as when one string is rendered.
class KimiLinearRenderer {
 public:
  KimiLinearRenderer(const Tokenizer& tokenizer, const ChatRequest& request)
      : builder_(tokenizer, PromptBuilder::Neighbours::kMerge), request_(request) {}

  Result<Prompt> render() {
    if (!request_.tools.empty()) {
      open("<|im_system|>", "tool_declare");
      builder_.plain(TRY(tools_json(request_.tools, "tools")));
      builder_.markup("<|im_end|>");
    }
    for (std::size_t i = 0; i < request_.messages.size(); ++i) {
      const bool is_last = i + 1 == request_.messages.size();
      TRY(message(request_.messages[i], i));
      if (!is_last || !request_.continue_final_message) builder_.markup("<|im_end|>");
    }
    if (!request_.continue_final_message) open("<|im_assistant|>", "assistant");
    return builder_.finish(OutputStart::kResponse, count_tool_calls(request_));
  }

 private:
  void open(std::string_view role, std::string_view name) {
    builder_.markup(role);
    builder_.plain(name);
    builder_.markup("<|im_middle|>");
  }

  // Everything of a message but its end.
  Result<void> message(const ChatMessage& message, std::size_t at) {
    if (!message.tools.empty()) {
      open("<|im_system|>", "tool_declare");
      builder_.plain(TRY(tools_json(message.tools, fmt::format("messages[{}].tools", at))));
      return {};
    }
    open(message.role == "user"        ? "<|im_user|>"
         : message.role == "assistant" ? "<|im_assistant|>"
                                       : "<|im_system|>",
         message.name.empty() ? message.role : message.name);
    if (message.role == "tool") {
      builder_.plain(fmt::format("## Return of {}\n", result_id(message.tool_call_id)));
    }
    content(message.content);
    if (message.role == "assistant") tool_calls(message);
    return {};
  }

  void content(const Content& content) {
    for (const ContentPart& part : content.parts) {
      if (!part.image) {
        builder_.plain(part.text);
        continue;
      }
      // <|media_start|> is in the published template but not in the vocabulary: ordinary text.
      builder_.plain("<|media_start|>image");
      builder_.markup("<|media_content|><|media_pad|><|media_end|>");
      builder_.plain("\n");
    }
  }

  void tool_calls(const ChatMessage& message) {
    positional_ids_.clear();
    next_result_ = 0;
    if (message.tool_calls.empty()) return;
    builder_.markup("<|tool_calls_section_begin|>");
    for (const ToolCall& call : message.tool_calls) {
      const std::string id = is_trained_id(call.id)
                                 ? call.id
                                 : fmt::format("functions.{}:{}", call.name, calls_so_far_);
      ++calls_so_far_;
      renamed_[call.id] = id;
      positional_ids_.push_back(id);
      builder_.markup("<|tool_call_begin|>");
      builder_.plain(id);
      builder_.markup("<|tool_call_argument_begin|>");
      builder_.plain(call.arguments);
      builder_.markup("<|tool_call_end|>");
    }
    builder_.markup("<|tool_calls_section_end|>");
  }

  // The id under which a result's call was rendered; a result without an id answers the next call.
  std::string result_id(const std::string& given) {
    const std::size_t place = next_result_++;
    if (given.empty()) return place < positional_ids_.size() ? positional_ids_[place] : given;
    const auto it = renamed_.find(given);
    return it == renamed_.end() ? given : it->second;
  }

  PromptBuilder builder_;
  const ChatRequest& request_;
  std::size_t calls_so_far_ = 0;
  std::unordered_map<std::string, std::string> renamed_;  // the caller's id -> the rendered one
  std::vector<std::string> positional_ids_;               // of the last assistant message
  std::size_t next_result_ = 0;                           // tool messages since then
};

class KimiLinearChatFormat final : public ChatFormat {
 public:
  explicit KimiLinearChatFormat(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  Result<Prompt> render(const ChatRequest& request) const override {
    TRY(check_messages(request));
    return KimiLinearRenderer(tokenizer_, request).render();
  }

 private:
  const Tokenizer& tokenizer_;
};

}  // namespace

std::unique_ptr<ChatFormat> make_kimi_linear_chat_format(const Tokenizer& tokenizer) {
  return std::make_unique<KimiLinearChatFormat>(tokenizer);
}

}  // namespace tandem
