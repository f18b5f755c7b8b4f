#include "serve/messages_response.h"

#include <utility>

#include "serve/json_dump.h"
#include "text/json_text.h"

namespace tandem {
namespace {

using Json = OrderedJson;
using Kind = AnswerBlock::Kind;

// Clients leave thinking without a signature out of the conversation. Ours proves nothing.
constexpr const char* kSignature = "unsigned";

// `members` beside the type, which is the event's name.
MessageEvent event(const char* name, Json members = Json::object()) {
  Json json = {{"type", name}};
  json.update(members);
  return {name, dump_json(json)};
}

MessageEvent delta_event(std::size_t index, Json delta) {
  return event("content_block_delta", {{"index", index}, {"delta", std::move(delta)}});
}

// A tool without a strict schema may be called with anything; what is no object is handed on as the
// text that it is. parse_json bounds the depth.
Json input_json(const std::string& arguments) {
  if (arguments.empty()) return Json::object();
  const auto value = parse_json(arguments);
  if (value && value->kind == JsonValue::Kind::kObject) {
    Json input = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
    if (input.is_object()) return input;
  }
  return {{"invalid_arguments", arguments}};
}

Json block_json(const AnswerBlock& block) {
  switch (block.kind) {
    case Kind::kThinking:
      return {{"type", "thinking"}, {"thinking", block.text}, {"signature", kSignature}};
    case Kind::kText:
      return {{"type", "text"}, {"text", block.text}};
    case Kind::kCall:
      break;
  }
  return {{"type", "tool_use"},
          {"id", block.id},
          {"name", block.name},
          {"input", input_json(block.text)}};
}

const char* stop_reason(const AnswerResult& result) {
  if (!result.stop_string.empty()) return "stop_sequence";
  switch (result.end) {
    case AnswerEnd::kLength:
      return "max_tokens";
    case AnswerEnd::kToolCalls:
      return "tool_use";
    case AnswerEnd::kStop:
      break;
  }
  return "end_turn";
}

Json ending_json(const AnswerResult& result) {
  return {{"stop_reason", stop_reason(result)},
          {"stop_sequence", result.stop_string.empty() ? Json() : Json(result.stop_string)}};
}

// Anthropic counts a prompt's tokens in three parts: read from the cache, written to it at a
// price - here nothing is - and the rest.
Json usage_json(const AnswerUsage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cache.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cache.cached_tokens},
          {"output_tokens", usage.completion_tokens}};
}

Json message_json(const MessageHead& head, Json content, const AnswerUsage& usage) {
  return {{"id", head.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", head.model},
          {"content", std::move(content)},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr},
          {"usage", usage_json(usage)}};
}

}  // namespace

std::string message_body(const MessageHead& head, std::span<const AnswerBlock> blocks,
                         const AnswerResult& result, const AnswerUsage& usage) {
  Json content = Json::array();
  for (const AnswerBlock& block : blocks) {
    if (block.kind != Kind::kCall || block.whole) content.push_back(block_json(block));
  }
  Json body = message_json(head, std::move(content), usage);
  body.update(ending_json(result));
  return dump_json(body);
}

MessageEvent message_start_event(const MessageHead& head, const AnswerUsage& usage) {
  return event("message_start", {{"message", message_json(head, Json::array(), usage)}});
}

MessageEvent ping_event() { return event("ping"); }

MessageEvent block_start_event(std::size_t index, const AnswerBlock& block) {
  Json json = block_json({.kind = block.kind, .id = block.id, .name = block.name});
  if (block.kind == Kind::kThinking) json["signature"] = "";
  return event("content_block_start", {{"index", index}, {"content_block", std::move(json)}});
}

MessageEvent block_delta_event(std::size_t index, Kind kind, std::string_view piece) {
  switch (kind) {
    case Kind::kThinking:
      return delta_event(index, {{"type", "thinking_delta"}, {"thinking", piece}});
    case Kind::kText:
      return delta_event(index, {{"type", "text_delta"}, {"text", piece}});
    case Kind::kCall:
      break;
  }
  return delta_event(index, {{"type", "input_json_delta"}, {"partial_json", piece}});
}

MessageEvent signature_event(std::size_t index) {
  return delta_event(index, {{"type", "signature_delta"}, {"signature", kSignature}});
}

MessageEvent block_stop_event(std::size_t index) {
  return event("content_block_stop", {{"index", index}});
}

MessageEvent message_delta_event(const AnswerResult& result, const AnswerUsage& usage) {
  return event("message_delta", {{"delta", ending_json(result)}, {"usage", usage_json(usage)}});
}

MessageEvent message_stop_event() { return event("message_stop"); }

}  // namespace tandem
