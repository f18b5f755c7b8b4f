#include "serve/responses_request.h"

#include <algorithm>
#include <array>

#include "serve/function_tool.h"
#include "serve/json_fields.h"
#include "serve/openai_messages.h"
#include "serve/respelling.h"
#include "serve/responses_input.h"

namespace tandem {
namespace {

constexpr std::string_view kNoLogprobs =
    "log-probs are not supported here; chat completions have them";

using Name = const std::string&;
using Value = const JsonValue&;

// The request as far as it is read.
struct Draft {
  ResponsesRequest request;
  Conversation declared;  // the names of its tools
};

Result<void> read_tools(Value value, Name field, Draft& draft) {
  TRY(expect_array(value, field));
  JsonValue functions;
  functions.kind = JsonValue::Kind::kArray;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const JsonValue& tool = value.items[i];
    const std::string at = fmt::format("{}[{}]", field, i);
    TRY(expect_object(tool, at));
    if (TRY(required_string(tool, "type", at)) != "function") {
      return bad_field(at + ".type", "expected \"function\": this server runs no tools of its own");
    }
    if (const JsonValue* schema = find_present(tool, "parameters")) {
      TRY(expect_object(*schema, at + ".parameters"));
    }
    if (const JsonValue* strict = find_present(tool, "strict")) {
      TRY(read_bool(*strict, at + ".strict"));
    }
    functions.items.push_back(function_tool(tool, "parameters"));
  }
  draft.request.chat.tools =
      TRY(parse_tools(functions, field, draft.declared).map_error(responses_error));
  return {};
}

Result<void> read_tool_choice(Value value, Name field, Draft& draft) {
  constexpr std::string_view kExpected = "auto, none, required or {type: function, name}";
  ChatRequest& chat = draft.request.chat;
  if (value.kind == JsonValue::Kind::kObject) {
    if (TRY(required_string(value, "type", field)) != "function") {
      return bad_field(field + ".type", "expected \"function\"");
    }
    chat.tool_choice = ToolChoice::kNamed;
    chat.named_tool = TRY(required_string(value, "name", field));
    return {};
  }
  if (value.kind != JsonValue::Kind::kString) return bad_field(field, kExpected, value);
  if (value.text == "auto") {
    chat.tool_choice = ToolChoice::kAuto;
  } else if (value.text == "none") {
    chat.tool_choice = ToolChoice::kNone;
  } else if (value.text == "required") {
    chat.tool_choice = ToolChoice::kRequired;
  } else {
    return bad_field(field, kExpected, value);
  }
  return {};
}

Result<void> read_reasoning(Value value, Name field, Draft& draft) {
  constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                        "high", "xhigh",   "max"};
  TRY(expect_object(value, field));
  const JsonValue* effort = find_present(value, "effort");
  if (effort == nullptr) return {};
  const std::string text = TRY(read_string(*effort, field + ".effort"));
  if (std::find(kEfforts.begin(), kEfforts.end(), text) == kEfforts.end()) {
    return bad_field(field + ".effort", "none, minimal, low, medium, high, xhigh or max", *effort);
  }
  draft.request.chat.effort = text;
  return {};
}

Result<void> read_text(Value value, Name field, Draft& draft) {
  TRY(expect_object(value, field));
  const JsonValue* format = find_present(value, "format");
  if (format == nullptr) return {};
  const std::string at = field + ".format";
  TRY(expect_object(*format, at));
  const std::string type = TRY(required_string(*format, "type", at));
  ResponseFormat& out = draft.request.chat.response_format;
  if (type == "text") return {};
  if (type == "json_object") {
    out = {.kind = ResponseFormat::Kind::kJsonObject, .source = {}, .field = at};
    return {};
  }
  if (type != "json_schema") {
    return bad_field(at + ".type", "expected text, json_object or json_schema");
  }
  TRY(required_string(*format, "name", at));
  const JsonValue* schema = find_present(*format, "schema");
  if (schema == nullptr) return bad_field(at + ".schema", "is required");
  TRY(expect_object(*schema, at + ".schema"));
  out = {.kind = ResponseFormat::Kind::kJsonSchema,
         .source = to_json(*schema, JsonStyle::kSpaced),
         .field = at + ".schema"};
  return {};
}

Result<void> read_include(Value value, Name field, Draft&) {
  TRY(expect_array(value, field));
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    if (TRY(read_string(value.items[i], at)) == "message.output_text.logprobs") {
      return bad_field(at, kNoLogprobs);
    }
  }
  return {};
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
    {"instructions",
     [](Value v, Name f, Draft& d) -> Result<void> {
       const std::string text = TRY(read_string(v, f));
       d.request.chat.messages.push_back({.role = "system", .content = text});
       return {};
     }},
    {"input",
     [](Value v, Name, Draft& d) -> Result<void> {
       std::vector<ChatMessage>& all = d.request.chat.messages;
       for (ChatMessage& message : TRY(parse_responses_input(v))) all.push_back(std::move(message));
       return {};
     }},
    {"max_output_tokens",
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
    {"tools", read_tools},
    {"tool_choice", read_tool_choice},
    {"parallel_tool_calls",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.chat.parallel_tool_calls = TRY(read_bool(v, f));
       return {};
     }},
    {"text", read_text},
    {"reasoning", read_reasoning},
    {"include", read_include},
    {"stream",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.stream = TRY(read_bool(v, f));
       return {};
     }},
    {"background",
     [](Value v, Name f, Draft&) -> Result<void> {
       return TRY(read_bool(v, f)) ? bad_field(f, "is not supported") : Result<void>();
     }},
    {"top_logprobs",
     [](Value v, Name f, Draft&) -> Result<void> {
       return TRY(read_integer(v, f, 0)) == 0 ? Result<void>() : bad_field(f, kNoLogprobs);
     }},
    {"truncation",
     [](Value v, Name f, Draft&) -> Result<void> {
       const std::string text = TRY(read_string(v, f));
       return text == "auto" || text == "disabled" ? Result<void>()
                                                   : bad_field(f, "auto or disabled", v);
     }},
};

// They need what is kept from earlier responses.
constexpr const char* kStored[] = {"previous_response_id", "conversation", "prompt"};

// What the response repeats as it was sent.
constexpr const char* kEchoed[] = {"instructions",
                                   "max_output_tokens",
                                   "metadata",
                                   "parallel_tool_calls",
                                   "prompt_cache_key",
                                   "reasoning",
                                   "safety_identifier",
                                   "text",
                                   "tool_choice",
                                   "tools",
                                   "truncation",
                                   "temperature",
                                   "top_p",
                                   "user"};

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

Result<ResponsesRequest> parse_responses_request(std::string_view body,
                                                 const SamplingParams& defaults) {
  const JsonValue object = TRY(parse_json_object(body));
  Draft draft;
  draft.request.sampling = defaults;
  for (const char* name : kStored) {
    if (find_present(object, name) != nullptr) {
      return bad_field(name, "is not supported: this server keeps no responses");
    }
  }
  if (find_present(object, "input") == nullptr) return bad_field("input", "is required");
  for (const Field& field : kFields) {
    const JsonValue* value = find_present(object, field.name);
    if (value != nullptr) TRY(field.read(*value, field.name, draft));
  }
  TRY(check_tool_choice(draft));
  for (const char* name : kEchoed) {
    const JsonValue* value = find_present(object, name);
    if (value != nullptr) {
      draft.request.echo.emplace_back(name, to_json(*value, JsonStyle::kSpaced));
    }
  }
  return std::move(draft.request);
}

Status responses_error(Status error) {
  std::string field = error.field;
  if (field == "messages") field = "input";
  if (field.starts_with("tools[")) replace_first(field, ".function.", ".");
  return with_field(std::move(error), std::move(field));
}

}  // namespace tandem
