#include "serve/openai_request.h"

#include <algorithm>
#include <array>

#include "serve/field_table.h"
#include "serve/json_fields.h"
#include "serve/openai_messages.h"

namespace tandem {
namespace {

// The request as far as it is read, and what only fields together decide.
struct Draft {
  ChatCompletionRequest request;
  Conversation conversation;
  bool logprobs = false;
  std::optional<std::int64_t> top_logprobs;
};

Result<void> read_effort(const JsonValue& value, const std::string& field, Draft& draft) {
  constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                        "high", "xhigh",   "max"};
  const std::string effort = TRY(read_string(value, field));
  if (std::find(kEfforts.begin(), kEfforts.end(), effort) == kEfforts.end()) {
    return bad_field(field, "none, minimal, low, medium, high, xhigh or max", value);
  }
  draft.request.chat.effort = effort;
  return {};
}

// Here a null counts: it asks for a prompt without a word of effort.
Result<void> read_template_kwargs(const JsonValue& value, const std::string& field, Draft& draft) {
  TRY(expect_object(value, field));
  for (const char* key : {"thinking", "enable_thinking"}) {
    const JsonValue* thinking = find_member(value, key);
    if (thinking == nullptr || is_null(*thinking)) continue;
    const bool on = TRY(read_bool(*thinking, fmt::format("{}.{}", field, key)));
    draft.request.chat.thinking = on ? Thinking::kOn : Thinking::kOff;
  }
  const JsonValue* effort = find_member(value, "thinking_effort");
  if (effort == nullptr) return {};
  if (!is_null(*effort)) return read_effort(*effort, field + ".thinking_effort", draft);
  draft.request.chat.effort = std::nullopt;
  return {};
}

Result<void> read_tool_choice(const JsonValue& value, const std::string& field, Draft& draft) {
  constexpr std::string_view kExpected = "auto, none, required or {type, function: {name}}";
  ToolChoice& choice = draft.request.chat.tool_choice;
  if (value.kind == JsonValue::Kind::kObject) {
    const JsonValue* function = find_member(value, "function");
    const JsonValue* name = function == nullptr ? nullptr : find_member(*function, "name");
    if (name == nullptr) return bad_field(field + ".function.name", "is required");
    draft.request.chat.named_tool = TRY(read_string(*name, field + ".function.name"));
    choice = ToolChoice::kNamed;
    return {};
  }
  if (value.kind != JsonValue::Kind::kString) return bad_field(field, kExpected, value);
  if (value.text == "auto") {
    choice = ToolChoice::kAuto;
  } else if (value.text == "none") {
    choice = ToolChoice::kNone;
  } else if (value.text == "required") {
    choice = ToolChoice::kRequired;
  } else {
    return bad_field(field, kExpected, value);
  }
  return {};
}

// OpenRouter's {effort, enabled}.
Result<void> read_reasoning(const JsonValue& value, const std::string& field, Draft& draft) {
  TRY(expect_object(value, field));
  const JsonValue* effort = find_member(value, "effort");
  if (effort != nullptr && !is_null(*effort)) TRY(read_effort(*effort, field + ".effort", draft));
  const JsonValue* enabled = find_member(value, "enabled");
  if (enabled == nullptr || is_null(*enabled)) return {};
  const bool on = TRY(read_bool(*enabled, field + ".enabled"));
  draft.request.chat.thinking = on ? Thinking::kOn : Thinking::kOff;
  return {};
}

// Moonshot's {type, effort}.
Result<void> read_thinking(const JsonValue& value, const std::string& field, Draft& draft) {
  TRY(expect_object(value, field));
  const JsonValue* type = find_member(value, "type");
  if (type != nullptr && !is_null(*type)) {
    const std::string word = TRY(read_string(*type, field + ".type"));
    if (word != "enabled" && word != "disabled") {
      return bad_field(field + ".type", "enabled or disabled", *type);
    }
    draft.request.chat.thinking = word == "enabled" ? Thinking::kOn : Thinking::kOff;
  }
  const JsonValue* effort = find_member(value, "effort");
  if (effort == nullptr || is_null(*effort)) return {};
  return read_effort(*effort, field + ".effort", draft);
}

// Only text comes out.
Result<void> read_modalities(const JsonValue& value, const std::string& field, Draft&) {
  TRY(expect_array(value, field));
  for (const JsonValue& item : value.items) {
    if (item.text != "text") return bad_field(field, "only \"text\" is supported", item);
  }
  return {};
}

using Name = const std::string&;
using Value = const JsonValue&;

Result<void> read_max_tokens(Value value, Name field, Draft& draft) {
  draft.request.max_tokens = TRY(read_integer(value, field, 1));
  return {};
}

// In the order in which they are read, after those that all protocols share.
constexpr FieldReader<Draft> kFields[] = {
    {"messages", [](Value v, Name, Draft& d) { return parse_messages(v, d.conversation); }},
    {"tools",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.chat.tools = TRY(parse_tools(v, f, d.conversation));
       return {};
     }},
    {"tool_choice", read_tool_choice},
    {"parallel_tool_calls",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.chat.parallel_tool_calls = TRY(read_bool(v, f));
       return {};
     }},
    // The later of two (max_tokens is the old name) wins.
    {"max_tokens", read_max_tokens},
    {"max_completion_tokens", read_max_tokens},
    {"logprobs",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.logprobs = TRY(read_bool(v, f));
       return {};
     }},
    {"top_logprobs",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.top_logprobs = TRY(read_integer(v, f, 0, kMaxTopLogprobs));
       return {};
     }},
    {"reasoning_effort", read_effort},
    {"reasoning", read_reasoning},
    {"thinking", read_thinking},
    {"chat_template_kwargs", read_template_kwargs},
    {"separate_reasoning",
     [](Value v, Name f, Draft& d) -> Result<void> {
       if (!TRY(read_bool(v, f))) d.request.reasoning = ReasoningText::kInContent;
       return {};
     }},
    {"include_reasoning",
     [](Value v, Name f, Draft& d) -> Result<void> {
       if (!TRY(read_bool(v, f))) d.request.reasoning = ReasoningText::kLeftOut;
       return {};
     }},
    {"continue_final_message",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.chat.continue_final_message = TRY(read_bool(v, f));
       return {};
     }},
    {"modalities", read_modalities},
};

const std::vector<std::string_view> kRefused = {
    "audio",
    "best_of",
    "chat_template",
    "documents",
    "echo",
    "function_call",
    "functions",
    "input_ids",
    "prompt_token_ids",
    "reasoning_budget",
    "thinking_token_budget",
};
Result<void> check_tool_choice(const Draft& draft) {
  const ToolChoice choice = draft.request.chat.tool_choice;
  if (choice != ToolChoice::kRequired && choice != ToolChoice::kNamed) return {};
  if (draft.conversation.tool_names.empty()) {
    return bad_field("tool_choice", "asks for a tool, but no tools are given");
  }
  if (choice == ToolChoice::kRequired) return {};
  const std::string& named = draft.request.chat.named_tool;
  if (draft.conversation.tool_names.contains(named)) return {};
  return bad_field("tool_choice.function.name",
                   fmt::format("no tool \"{}\" is given", named.substr(0, 60)));
}

Result<void> check_together(Draft& draft) {
  TRY(check_tool_choice(draft));
  if (draft.top_logprobs && !draft.logprobs) {
    return bad_field("top_logprobs", "needs logprobs: true");
  }
  if (draft.logprobs) {
    draft.request.sampling.top_logprobs = static_cast<int>(draft.top_logprobs.value_or(0));
  }
  return {};
}

}  // namespace

Result<ChatCompletionRequest> parse_chat_completion(std::string_view body,
                                                    const SamplingParams& defaults) {
  const JsonValue object = TRY(parse_json_object(body));
  Draft draft;
  draft.request.sampling = defaults;
  const JsonValue* messages = find_member(object, "messages");
  if (messages == nullptr || is_null(*messages)) return bad_field("messages", "is required");
  TRY(read_generation_fields(object, draft.request));
  TRY(read_fields(object, kFields, draft));
  TRY(check_other_fields(object, chat_field_names(), kRefused, draft.request));
  TRY(check_together(draft));
  draft.request.chat.response_format = draft.request.format;
  draft.request.chat.messages = std::move(draft.conversation.messages);
  if (draft.conversation.continue_last) draft.request.chat.continue_final_message = true;
  return std::move(draft.request);
}

const std::vector<std::string_view>& chat_field_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    add_names(kFields, all);
    return all;
  }();
  return names;
}

const std::vector<std::string_view>& chat_refused_names() { return kRefused; }

}  // namespace tandem
