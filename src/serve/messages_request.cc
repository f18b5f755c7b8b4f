#include "serve/messages_request.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "serve/function_tool.h"
#include "serve/json_fields.h"
#include "serve/messages_conversation.h"
#include "serve/messages_error.h"
#include "serve/openai_messages.h"

namespace tandem {
namespace {

constexpr std::size_t kMaxStops = 64;
constexpr std::size_t kMaxStopBytes = 1024;

using Name = const std::string&;
using Value = const JsonValue&;

// The request as far as it is read.
struct Draft {
  MessagesRequest request;
  Conversation declared;  // the names of its tools
};

Result<std::string> read_type(Value value, Name field) {
  TRY(expect_object(value, field));
  const JsonValue* type = find_present(value, "type");
  if (type == nullptr) return bad_field(field + ".type", "is required");
  return read_string(*type, field + ".type");
}

Result<void> read_stop_sequences(Value value, Name field, Draft& draft) {
  TRY(expect_array(value, field));
  if (value.items.size() > kMaxStops) {
    return bad_field(
        field, fmt::format("expected at most {} strings, got {}", kMaxStops, value.items.size()));
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const std::string at = fmt::format("{}.{}", field, i);
    std::string stop = TRY(read_string(value.items[i], at));
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return bad_field(at,
                       fmt::format("expected 1 to {} bytes, got {}", kMaxStopBytes, stop.size()));
    }
    draft.request.stop.push_back(std::move(stop));
  }
  return {};
}

Result<JsonValue> read_tool(Value tool, Name field) {
  TRY(expect_object(tool, field));
  const JsonValue* type = find_present(tool, "type");
  if (type != nullptr && TRY(read_string(*type, field + ".type")) != "custom") {
    return bad_field(field + ".type", "expected \"custom\": this server runs no tools of its own");
  }
  const JsonValue* schema = find_present(tool, "input_schema");
  if (schema == nullptr) return bad_field(field + ".input_schema", "is required");
  TRY(expect_object(*schema, field + ".input_schema"));
  if (const JsonValue* strict = find_present(tool, "strict")) {
    TRY(read_bool(*strict, field + ".strict"));
  }
  return function_tool(tool, "input_schema");
}

Result<void> read_tools(Value value, Name field, Draft& draft) {
  TRY(expect_array(value, field));
  JsonValue functions;
  functions.kind = JsonValue::Kind::kArray;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    functions.items.push_back(TRY(read_tool(value.items[i], fmt::format("{}.{}", field, i))));
  }
  draft.request.chat.tools =
      TRY(parse_tools(functions, field, draft.declared).map_error(messages_error));
  return {};
}

Result<void> read_tool_choice(Value value, Name field, Draft& draft) {
  ChatRequest& chat = draft.request.chat;
  const std::string type = TRY(read_type(value, field));
  if (type == "auto") {
    chat.tool_choice = ToolChoice::kAuto;
  } else if (type == "any") {
    chat.tool_choice = ToolChoice::kRequired;
  } else if (type == "none") {
    chat.tool_choice = ToolChoice::kNone;
  } else if (type == "tool") {
    const JsonValue* name = find_present(value, "name");
    if (name == nullptr) return bad_field(field + ".name", "is required");
    chat.tool_choice = ToolChoice::kNamed;
    chat.named_tool = TRY(read_string(*name, field + ".name"));
  } else {
    return bad_field(field + ".type", "expected auto, any, tool or none");
  }
  if (const JsonValue* disable = find_present(value, "disable_parallel_tool_use")) {
    chat.parallel_tool_calls = !TRY(read_bool(*disable, field + ".disable_parallel_tool_use"));
  }
  return {};
}

Result<void> read_thinking(Value value, Name field, Draft& draft) {
  const std::string type = TRY(read_type(value, field));
  if (type != "enabled" && type != "adaptive" && type != "disabled") {
    return bad_field(field + ".type", "expected enabled, adaptive or disabled");
  }
  draft.request.chat.thinking = type == "disabled" ? Thinking::kOff : Thinking::kOn;
  if (const JsonValue* budget = find_present(value, "budget_tokens")) {
    TRY(read_integer(*budget, field + ".budget_tokens", 1));
  }
  return {};
}

Result<void> read_format(Value value, Name field, Draft& draft) {
  const std::string type = TRY(read_type(value, field));
  if (type != "json_schema") return bad_field(field + ".type", "expected \"json_schema\"");
  const JsonValue* schema = find_present(value, "schema");
  if (schema == nullptr) return bad_field(field + ".schema", "is required");
  TRY(expect_object(*schema, field + ".schema"));
  draft.request.chat.response_format = {.kind = ResponseFormat::Kind::kJsonSchema,
                                        .source = to_json(*schema, JsonStyle::kSpaced),
                                        .field = field + ".schema"};
  return {};
}

Result<void> read_output_config(Value value, Name field, Draft& draft) {
  constexpr std::array<std::string_view, 5> kEfforts = {"low", "medium", "high", "xhigh", "max"};
  TRY(expect_object(value, field));
  if (const JsonValue* effort = find_present(value, "effort")) {
    const std::string text = TRY(read_string(*effort, field + ".effort"));
    if (std::find(kEfforts.begin(), kEfforts.end(), text) == kEfforts.end()) {
      return bad_field(field + ".effort", "low, medium, high, xhigh or max", *effort);
    }
    draft.request.chat.effort = text;
  }
  const JsonValue* format = find_present(value, "format");
  return format == nullptr ? Result<void>() : read_format(*format, field + ".format", draft);
}

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
    {"system",
     [](Value v, Name, Draft& d) -> Result<void> {
       ChatMessage system = TRY(parse_system(v));
       if (!system.content.empty()) d.request.chat.messages.push_back(std::move(system));
       return {};
     }},
    {"messages",
     [](Value v, Name, Draft& d) -> Result<void> {
       std::vector<ChatMessage>& all = d.request.chat.messages;
       for (ChatMessage& message : TRY(parse_message_list(v))) all.push_back(std::move(message));
       d.request.chat.continue_final_message = all.back().role == "assistant";
       return {};
     }},
    {"max_tokens",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.max_tokens = TRY(read_integer(v, f, 1));
       return {};
     }},
    {"temperature",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.sampling.temperature = TRY(read_float(v, f, {0, 1}));
       return {};
     }},
    {"top_p",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.sampling.top_p = TRY(read_float(v, f, {0, 1, true}));
       return {};
     }},
    {"top_k",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.sampling.top_k = TRY(read_integer(v, f, 0));
       return {};
     }},
    {"stop_sequences", read_stop_sequences},
    {"stream",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.stream = TRY(read_bool(v, f));
       return {};
     }},
    {"tools", read_tools},
    {"tool_choice", read_tool_choice},
    {"thinking", read_thinking},
    {"output_config", read_output_config},
    {"output_format", read_format},  // its older place
};

// They would change the answer, so to ignore them would be a lie.
constexpr const char* kUnsupported[] = {"container", "mcp_servers"};

Result<void> check_tool_choice(const Draft& draft) {
  const ChatRequest& chat = draft.request.chat;
  const bool must_call =
      chat.tool_choice == ToolChoice::kRequired || chat.tool_choice == ToolChoice::kNamed;
  if (!must_call) return {};
  if (chat.tools.empty()) return bad_field("tool_choice", "asks for a tool, but none is given");
  if (chat.tool_choice == ToolChoice::kNamed &&
      !draft.declared.tool_names.contains(chat.named_tool)) {
    return bad_field("tool_choice.name",
                     fmt::format("no tool \"{}\" is given", chat.named_tool.substr(0, 60)));
  }
  return {};
}

}  // namespace

Result<MessagesRequest> parse_messages_request(std::string_view body,
                                               const SamplingParams& defaults,
                                               MessagesPurpose purpose) {
  const JsonValue object = TRY(parse_json_object(body));
  Draft draft;
  draft.request.sampling = defaults;
  draft.request.chat.thinking = Thinking::kOff;
  if (find_present(object, "messages") == nullptr) return bad_field("messages", "is required");
  if (purpose == MessagesPurpose::kAnswer && find_present(object, "max_tokens") == nullptr) {
    return bad_field("max_tokens", "is required");
  }
  for (const Field& field : kFields) {
    const JsonValue* value = find_present(object, field.name);
    if (value != nullptr) TRY(field.read(*value, field.name, draft));
  }
  for (const char* name : kUnsupported) {
    const JsonValue* value = find_present(object, name);
    const bool is_empty =
        value == nullptr || (value->kind == JsonValue::Kind::kArray && value->items.empty());
    if (!is_empty) return bad_field(name, "is not supported");
  }
  TRY(check_tool_choice(draft));
  return std::move(draft.request);
}

}  // namespace tandem
