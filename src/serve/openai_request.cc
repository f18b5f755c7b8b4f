#include "serve/openai_request.h"

#include <algorithm>
#include <array>

#include "serve/answer_format.h"
#include "serve/json_fields.h"
#include "serve/openai_messages.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxChoices = 128;
constexpr std::size_t kMaxStops = 64;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxSaltBytes = 1024;
constexpr std::int64_t kMinPriority = -1'000'000'000;
constexpr std::int64_t kMaxPriority = 1'000'000'000;

// The request as far as it is read, and what only fields together decide.
struct Draft {
  ChatCompletionRequest request;
  Conversation conversation;
  bool logprobs = false;
  std::optional<std::int64_t> top_logprobs;
  bool has_stream_options = false;
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

Result<std::string> read_stop_string(const JsonValue& value, const std::string& field) {
  std::string stop = TRY(read_string(value, field));
  if (stop.empty()) return bad_field(field, "an empty string would stop every answer");
  if (stop.size() > kMaxStopBytes) {
    return bad_field(field,
                     fmt::format("expected at most {} bytes, got {}", kMaxStopBytes, stop.size()));
  }
  return stop;
}

Result<void> read_stop(const JsonValue& value, const std::string& field, Draft& draft) {
  std::vector<std::string>& stops = draft.request.stop;
  if (value.kind == JsonValue::Kind::kString) {
    stops = {TRY(read_stop_string(value, field))};
    return {};
  }
  if (value.kind != JsonValue::Kind::kArray) {
    return bad_field(field, "a string or a list of strings", value);
  }
  if (value.items.size() > kMaxStops) {
    return bad_field(
        field, fmt::format("expected at most {} strings, got {}", kMaxStops, value.items.size()));
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    stops.push_back(TRY(read_stop_string(value.items[i], fmt::format("{}[{}]", field, i))));
  }
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

Result<void> read_stream_options(const JsonValue& value, const std::string& field, Draft& draft) {
  TRY(expect_object(value, field));
  draft.has_stream_options = true;
  const JsonValue* usage = find_member(value, "include_usage");
  if (usage == nullptr || is_null(*usage)) return {};
  draft.request.include_usage = TRY(read_bool(*usage, field + ".include_usage"));
  return {};
}

Result<void> read_cache_salt(const JsonValue& value, const std::string& field, Draft& draft) {
  draft.request.cache_salt = TRY(read_string(value, field));
  if (draft.request.cache_salt.size() > kMaxSaltBytes) {
    return bad_field(field, fmt::format("expected at most {} bytes, got {}", kMaxSaltBytes,
                                        draft.request.cache_salt.size()));
  }
  return {};
}

using Name = const std::string&;
using Value = const JsonValue&;

struct Field {
  const char* name;
  Result<void> (*read)(Value value, Name field, Draft& draft);
};

// In the order in which they are read. A field that is null counts as left out.
constexpr Field kFields[] = {
    {"model",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.model = TRY(read_string(v, f));
       return {};
     }},
    {"messages", [](Value v, Name, Draft& d) { return parse_messages(v, d.conversation); }},
    {"tools",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.chat.tools = TRY(parse_tools(v, f, d.conversation));
       return {};
     }},
    {"tool_choice", read_tool_choice},
    // The later of two (max_tokens is the old name) wins.
    {"max_tokens",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.max_tokens = TRY(read_integer(v, f, 1));
       return {};
     }},
    {"max_completion_tokens",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.max_tokens = TRY(read_integer(v, f, 1));
       return {};
     }},
    {"temperature",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.sampling.temperature = TRY(read_float(v, f, {0, 2}));
       return {};
     }},
    {"top_p",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.sampling.top_p = TRY(read_float(v, f, {0, 1, true}));
       return {};
     }},
    {"top_k",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.sampling.top_k = TRY(read_integer(v, f, -1));
       return {};
     }},
    {"min_p",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.sampling.min_p = TRY(read_float(v, f, {0, 1}));
       return {};
     }},
    {"presence_penalty",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.sampling.presence_penalty = TRY(read_float(v, f, {-2, 2}));
       return {};
     }},
    {"frequency_penalty",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.sampling.frequency_penalty = TRY(read_float(v, f, {-2, 2}));
       return {};
     }},
    {"repetition_penalty",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.sampling.repetition_penalty = TRY(read_float(v, f, {0, 2, true}));
       return {};
     }},
    {"seed",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.seed = static_cast<std::uint64_t>(TRY(read_integer(v, f)));
       return {};
     }},
    {"stop", read_stop},
    {"n",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.choices = static_cast<int>(TRY(read_integer(v, f, 1, kMaxChoices)));
       return {};
     }},
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
    {"stream",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.stream = TRY(read_bool(v, f));
       return {};
     }},
    {"stream_options", read_stream_options},
    {"reasoning_effort", read_effort},
    {"chat_template_kwargs", read_template_kwargs},
    {"continue_final_message",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.chat.continue_final_message = TRY(read_bool(v, f));
       return {};
     }},
    {"parallel_tool_calls",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.chat.parallel_tool_calls = TRY(read_bool(v, f));
       return {};
     }},
    {"cache_salt", read_cache_salt},
    {"priority",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.priority = static_cast<int>(TRY(read_integer(v, f, kMinPriority, kMaxPriority)));
       return {};
     }},
};

// They would change the answer, so to ignore them would be a lie; null, false and empty ask for
// nothing.
constexpr const char* kUnsupported[] = {
    "allowed_token_ids",
    "audio",
    "bad_words",
    "best_of",
    "chat_template",
    "documents",
    "echo",
    "functions",
    "ignore_eos",
    "input_ids",
    "logit_bias",
    "min_tokens",
    "prompt_logprobs",
    "prompt_token_ids",
    "stop_regex",
    "stop_token_ids",
    "structural_tag",
    "use_beam_search",
    "custom_logit_processor",
};

bool asks_for_nothing(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return true;
    case JsonValue::Kind::kBoolean:
      return value.text == "false";
    case JsonValue::Kind::kNumber:
      return value.text == "0";
    case JsonValue::Kind::kString:
      return value.text.empty();
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject:
      return value.items.empty();
  }
  return false;
}

Result<void> check_tool_choice(const Draft& draft) {
  const ToolChoice choice = draft.request.chat.tool_choice;
  if (choice != ToolChoice::kRequired && choice != ToolChoice::kNamed) return {};
  if (draft.conversation.tool_names.empty()) {
    return bad_field("tool_choice", "asks for a tool, but no tools are given");
  }
  if (choice == ToolChoice::kRequired) return {};
  const std::string& name = draft.request.chat.named_tool;
  if (!draft.conversation.tool_names.contains(name)) {
    return bad_field("tool_choice.function.name",
                     fmt::format("no tool \"{}\" is given", name.substr(0, 60)));
  }
  return {};
}

Result<void> check_together(Draft& draft) {
  TRY(check_tool_choice(draft));
  if (draft.top_logprobs && !draft.logprobs) {
    return bad_field("top_logprobs", "needs logprobs: true");
  }
  if (draft.has_stream_options && !draft.request.stream) {
    return bad_field("stream_options", "needs stream: true");
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
  if (find_member(object, "messages") == nullptr) return bad_field("messages", "is required");
  for (const Field& field : kFields) {
    const JsonValue* value = find_member(object, field.name);
    // Messages are required, so their null is an error that parse_messages words.
    if (value == nullptr || (is_null(*value) && field.name != std::string_view("messages"))) {
      continue;
    }
    TRY(field.read(*value, field.name, draft));
  }
  for (const char* name : kUnsupported) {
    const JsonValue* value = find_member(object, name);
    if (value != nullptr && !asks_for_nothing(*value)) {
      return bad_field(name, "is not supported");
    }
  }
  draft.request.chat.response_format = TRY(read_answer_format(object));
  TRY(check_together(draft));
  draft.request.chat.messages = std::move(draft.conversation.messages);
  if (draft.conversation.continue_last) draft.request.chat.continue_final_message = true;
  return std::move(draft.request);
}

}  // namespace tandem
