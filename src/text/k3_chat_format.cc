// Kimi K3's prompt: messages of tagged channels ("XTML"), bodies unescaped, structure by token id.
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/chat_common.h"
#include "text/json_text.h"
#include "text/utf8.h"
#include "text/xtml_marker.h"

namespace tandem {
namespace {

constexpr std::string_view kToolsHeading =
    "# Tools\nHere are the available tools, described in JSONSchema.\n\n";
constexpr std::string_view kNewToolsHeading =
    "## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\nYou "
    "have "
    "access to all existing and extended tools.\nHere are the specs for the extended tools.\n\n";
constexpr std::string_view kEffort =
    "`thinking_effort` guides on how much to think in your thinking channel (not including the "
    "response channel), supported values include `low`, `medium`, `high`, and `max`.\nNow the "
    "system "
    "is invoked with `thinking_effort={}`.";
constexpr std::string_view kChoiceRequired =
    "The system is invoked with `tool_choice=required`.\nYou MUST call tools in the next message.";
constexpr std::string_view kChoiceNone =
    "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in the next "
    "message.";
constexpr std::string_view kFormat =
    "The system is invoked with `response_format={}`.\nYour response must be raw JSON data without "
    "markdown code blocks (```json) or any additional formatting.";
constexpr std::string_view kSchema = "\nThe JSON data must match the following schema:\n";

std::string fenced(std::string_view json) { return fmt::format("```json\n{}\n```", json); }

std::string_view type_name(JsonValue::Kind kind) {
  switch (kind) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBoolean:
      return "boolean";
    case JsonValue::Kind::kNumber:
      return "number";
    case JsonValue::Kind::kString:
      return "string";
    case JsonValue::Kind::kArray:
      return "array";
    case JsonValue::Kind::kObject:
      return "object";
  }
  return "";
}

// What `effort` and `thinking` of a request come to.
struct EffortSetting {
  Thinking thinking = Thinking::kOn;
  std::optional<std::string> effort = {};  // low, high or max
};

Result<EffortSetting> resolve_effort(const ChatRequest& request) {
  constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
      {"low", "low"},   {"minimal", "low"}, {"medium", "high"},
      {"high", "high"}, {"xhigh", "max"},   {"max", "max"}};
  if (request.thinking == Thinking::kOff || request.effort == "none")
    return EffortSetting{Thinking::kOff};
  if (!request.effort) return EffortSetting{};
  for (const auto& [given, meant] : kSpellings) {
    if (*request.effort == given) return EffortSetting{Thinking::kOn, std::string(meant)};
  }
  return invalid_field(
      "reasoning_effort",
      fmt::format("unknown effort \"{}\"; expected none, minimal, low, medium, high, "
                  "xhigh or max",
                  *request.effort));
}

// A tool message and the name of the tool whose result it is.
struct ToolResult {
  const ChatMessage* message;
  std::string tool;
};

// A run of tool messages that all answer `calls` (of the assistant message before them) takes the
// order of the calls and the names in them. Any other run stays as it is: a result's tool is its
// name, else that of the call in the same place, counting from `first_index` (0-based).
Result<std::vector<ToolResult>> order_results(const ChatRequest& request, std::size_t begin,
                                              std::size_t end, const std::vector<ToolCall>& calls,
                                              std::size_t first_index) {
  const auto call_of = [&](const ChatMessage& message) {
    return std::find_if(calls.begin(), calls.end(),
                        [&](const ToolCall& call) {
                          return !call.id.empty() && call.id == message.tool_call_id;
                        }) -
           calls.begin();
  };
  std::vector<std::pair<std::ptrdiff_t, const ChatMessage*>> run;
  for (std::size_t i = begin; i < end; ++i) {
    run.emplace_back(call_of(request.messages[i]), &request.messages[i]);
  }
  const auto unmatched = static_cast<std::ptrdiff_t>(calls.size());
  std::vector<ToolResult> results;
  if (std::none_of(run.begin(), run.end(), [&](const auto& r) { return r.first == unmatched; })) {
    std::stable_sort(run.begin(), run.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [call, message] : run) {
      results.push_back({message, calls[static_cast<std::size_t>(call)].name});
    }
    return results;
  }
  for (std::size_t i = begin; i < end; ++i) {
    const ChatMessage& message = request.messages[i];
    const std::size_t place = first_index + i - begin;
    if (message.name.empty() && place >= calls.size()) {
      return invalid_field(
          fmt::format("messages[{}].tool_call_id", i),
          "answers no call of the assistant message before it, and no name is given");
    }
    results.push_back({&message, message.name.empty() ? calls[place].name : message.name});
  }
  return results;
}

using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

// Writes one prompt.
class K3Renderer {
 public:
  K3Renderer(const Tokenizer& tokenizer, const ChatRequest& request, EffortSetting setting)
      : builder_(tokenizer, PromptBuilder::Neighbours::kKeep),
        request_(request),
        setting_(std::move(setting)) {}

  Result<Prompt> render() {
    if (!request_.tools.empty()) {
      system("tool-declare",
             fmt::format("{}{}", kToolsHeading, fenced(TRY(tools_json(request_.tools, "tools")))));
    }
    if (setting_.effort)
      system("thinking-effort", fmt::format(fmt::runtime(kEffort), *setting_.effort));
    const std::size_t whole = request_.messages.size() - (request_.continue_final_message ? 1 : 0);
    TRY(messages(whole));
    if (request_.tool_choice == ToolChoice::kRequired) system("tool-choice", kChoiceRequired);
    if (request_.tool_choice == ToolChoice::kNone) system("tool-choice", kChoiceNone);
    TRY(response_format());
    const OutputStart start = open_answer();
    return builder_.finish(start, count_tool_calls(request_));
  }

 private:
  void open(std::string_view tag, Attributes attributes = {}) {
    builder_.markup("<|open|>");
    builder_.plain(tag);
    for (const auto& [key, value] : attributes) {
      builder_.plain(fmt::format(" {}", key));
      builder_.plain("=\"");
      builder_.plain(escape_xtml_attribute(value));
      builder_.plain("\"");
    }
    builder_.markup("<|sep|>");
  }
  void close(std::string_view tag) {
    builder_.markup("<|close|>");
    builder_.plain(tag);
    builder_.markup("<|sep|>");
  }
  void close_message() {
    close("message");
    builder_.markup("<|end_of_msg|>");
  }
  void element(std::string_view tag, std::string_view body, Attributes attributes = {}) {
    open(tag, attributes);
    builder_.plain(body);
    close(tag);
  }
  void system(std::string_view type, std::string_view body) {
    open("message", {{"role", "system"}, {"type", type}});
    builder_.plain(body);
    close_message();
  }

  // Neighbouring texts are one segment.
  void content(const Content& content) {
    std::string text;
    for (const ContentPart& part : content.parts) {
      if (!part.image) {
        text += part.text;
        continue;
      }
      builder_.plain(std::exchange(text, {}));
      builder_.markup(
          fmt::format("<|media_begin|>image {}x{}<|media_content|><|media_pad|><|media_end|>",
                      part.image->width, part.image->height));
    }
    builder_.plain(text);
  }

  // The first `count` messages of the request.
  Result<void> messages(std::size_t count) {
    std::vector<ToolCall> calls;  // of the last assistant message
    std::size_t results = 0;      // tool messages since then
    for (std::size_t i = 0; i < count;) {
      const ChatMessage& message = request_.messages[i];
      if (message.role == "tool") {
        std::size_t end = i + 1;
        while (end < count && request_.messages[end].role == "tool") ++end;
        for (const ToolResult& result : TRY(order_results(request_, i, end, calls, results))) {
          tool_result(result, ++results);
        }
        i = end;
        continue;
      }
      if (message.role == "assistant") {
        TRY(assistant(message, i));
        calls = message.tool_calls;
        results = 0;
      } else if (!message.tools.empty()) {
        const std::string field = fmt::format("messages[{}].tools", i);
        system("tool-declare", fmt::format("{}{}", kNewToolsHeading,
                                           fenced(TRY(tools_json(message.tools, field)))));
      } else {
        from_caller(message);
      }
      ++i;
    }
    return {};
  }

  void from_caller(const ChatMessage& message) {
    std::string_view role = message.role;
    if (role == "developer") role = "system";
    if (message.name.empty()) {
      open("message", {{"role", role}});
    } else {
      open("message", {{"role", role}, {"name", message.name}});
    }
    content(message.content);
    close_message();
  }

  void tool_result(const ToolResult& result, std::size_t index) {
    open("message", {{"role", "tool"}, {"tool", result.tool}, {"index", fmt::format("{}", index)}});
    content(result.message->content);
    close_message();
  }

  std::string_view thinking_of(const ChatMessage& message) const {
    return is_blank(message.reasoning) ? std::string_view() : message.reasoning;
  }

  Result<void> assistant(const ChatMessage& message, std::size_t at) {
    open("message", {{"role", "assistant"}});
    // With thinking on the channel is always there, if only empty; with thinking off never.
    if (setting_.thinking == Thinking::kOn) element("think", thinking_of(message));
    open("response");
    content(message.content);
    close("response");
    if (!message.tool_calls.empty()) {
      open("tools");
      for (std::size_t k = 0; k < message.tool_calls.size(); ++k) {
        TRY(tool_call(message.tool_calls[k], k,
                      fmt::format("messages[{}].tool_calls[{}].function.arguments", at, k)));
      }
      close("tools");
    }
    close_message();
    return {};
  }

  Result<void> tool_call(const ToolCall& call, std::size_t index, const std::string& field) {
    open("call", {{"tool", call.name}, {"index", fmt::format("{}", index + 1)}});
    if (!is_blank(call.arguments)) {
      const Result<JsonValue> arguments = parse_json(call.arguments);
      if (!arguments) {
        element("json", call.arguments, {{"type", "object"}});
      } else if (arguments->kind != JsonValue::Kind::kObject) {
        return invalid_field(field, "expected a JSON object");
      } else {
        for (std::size_t i = 0; i < arguments->items.size(); ++i) {
          argument(arguments->keys[i], arguments->items[i]);
        }
      }
    }
    close("call");
    return {};
  }

  void argument(std::string_view key, const JsonValue& value) {
    const bool is_string = value.kind == JsonValue::Kind::kString;
    element("argument", is_string ? value.text : to_json(value, JsonStyle::kSpaced),
            {{"key", key}, {"type", type_name(value.kind)}});
  }

  Result<void> response_format() {
    const ResponseFormat& format = request_.response_format;
    switch (format.kind) {
      case ResponseFormat::Kind::kJsonObject:
        system("response-format", fmt::format(fmt::runtime(kFormat), "json_object"));
        return {};
      case ResponseFormat::Kind::kJsonSchema:
        return response_schema(format);
      case ResponseFormat::Kind::kText:
      case ResponseFormat::Kind::kRegex:
      case ResponseFormat::Kind::kEbnf:
        break;
    }
    return {};
  }

  Result<void> response_schema(const ResponseFormat& format) {
    const Result<JsonValue> schema = parse_json(format.source);
    if (!schema) {
      return invalid_field("response_format.json_schema.schema", schema.error().message);
    }
    system("response-format", fmt::format(fmt::runtime(kFormat), "json_schema") +
                                  std::string(kSchema) +
                                  fenced(to_json(*schema, JsonStyle::kCompactSorted)));
    return {};
  }

  // The assistant message that the model goes on with.
  OutputStart open_answer() {
    open("message", {{"role", "assistant"}});
    const bool thinks = setting_.thinking == Thinking::kOn;
    const ChatMessage* draft =
        request_.continue_final_message ? &request_.messages.back() : nullptr;
    if (thinks && (draft == nullptr || draft->content.empty())) {
      open("think");
      if (draft != nullptr) builder_.plain(thinking_of(*draft));
      return OutputStart::kThinking;
    }
    if (thinks) element("think", thinking_of(*draft));
    open("response");
    if (draft != nullptr) content(draft->content);
    return OutputStart::kResponse;
  }

  PromptBuilder builder_;
  const ChatRequest& request_;
  const EffortSetting setting_;
};

class K3ChatFormat final : public ChatFormat {
 public:
  explicit K3ChatFormat(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  Result<Prompt> render(const ChatRequest& request) const override {
    TRY(check_messages(request));
    return K3Renderer(tokenizer_, request, TRY(resolve_effort(request))).render();
  }

 private:
  const Tokenizer& tokenizer_;
};

}  // namespace

std::unique_ptr<ChatFormat> make_k3_chat_format(const Tokenizer& tokenizer) {
  return std::make_unique<K3ChatFormat>(tokenizer);
}

}  // namespace tandem
