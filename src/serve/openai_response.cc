#include "serve/openai_response.h"

#include <utility>

#include "serve/json_dump.h"
#include "serve/meta_info.h"
#include "serve/openai_usage.h"
#include "text/utf8.h"

namespace tandem {
namespace {

using Json = OrderedJson;

// A token may end within a character: `token` shows U+FFFD there, `bytes` is exact.
Json token_json(const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  Json values = Json::array();
  for (const char byte : bytes) values.push_back(static_cast<unsigned char>(byte));
  Json json;
  json["token"] = repair_utf8(bytes);
  json["logprob"] = finite_logprob(logprob);
  json["bytes"] = std::move(values);
  return json;
}

Json logprobs_json(const ShownTokens& shown) {
  Json content = Json::array();
  for (const SampledToken& token : shown.tokens) {
    Json entry = token_json(*shown.logprobs, token.id, token.logprob);
    Json top = Json::array();
    for (const TokenLogprob& other : token.top) {
      top.push_back(token_json(*shown.logprobs, other.id, other.logprob));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  Json json;
  json["content"] = std::move(content);
  return json;
}

Json message_json(const Answer& answer) {
  Json message;
  message["role"] = "assistant";
  const bool calls_only = answer.content.empty() && !answer.tool_calls.empty();
  message["content"] = calls_only ? Json() : Json(answer.content);
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const ToolCall& call : answer.tool_calls) {
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

Json head_json(const ChatHead& head, const char* object) {
  Json json;
  json["id"] = head.id;
  json["object"] = object;
  json["created"] = head.created;
  json["model"] = head.model;
  return json;
}

Json ids_json(std::span<const SampledToken> tokens) {
  Json ids = Json::array();
  for (const SampledToken& token : tokens) ids.push_back(token.id);
  return ids;
}

Json matched_stop(const ChatEnd& end) {
  if (!end.stop_string.empty()) return end.stop_string;
  return end.stop_id ? Json(*end.stop_id) : Json();
}

Json chunk_json(const ChatHead& head, int choice, Json delta, const ShownTokens& shown) {
  Json json = head_json(head, "chat.completion.chunk");
  Json entry;
  entry["index"] = choice;
  entry["delta"] = std::move(delta);
  if (!shown.tokens.empty()) {
    if (shown.logprobs != nullptr) entry["logprobs"] = logprobs_json(shown);
    if (shown.ids) entry["token_ids"] = ids_json(shown.tokens);
  }
  entry["finish_reason"] = nullptr;
  json["choices"] = Json::array({std::move(entry)});
  return json;
}

Json choice_meta_info(const ChatHead& head, const ChatEnd& end) {
  const GenerateUsage& usage = end.result.result.usage;
  return meta_info_json({.id = head.id,
                         .result = &end.result,
                         .prompt_tokens = usage.prompt_tokens,
                         .completion_tokens = usage.completion_tokens,
                         .cached_tokens = usage.cache.cached_tokens});
}

// As chunk_json() has it, without the tree: nearly all of a stream is these.
std::string text_chunk(const ChatHead& head, int choice, const char* field,
                       const std::string& text) {
  return fmt::format(
      R"({{"id":{},"object":"chat.completion.chunk","created":{},"model":{},"choices":[{{"index":{},)"
      R"("delta":{{"{}":{}}},"finish_reason":null}}]}})",
      dump_json(head.id), head.created, dump_json(head.model), choice, field, dump_json(text));
}

Json call_delta(Json call) {
  Json delta;
  delta["tool_calls"] = Json::array({std::move(call)});
  return delta;
}

// null if the event has no place in a stream.
Json delta_of(const OutputEvent& event) {
  using Kind = OutputEvent::Kind;
  switch (event.kind) {
    case Kind::kReasoning:
      return {{"reasoning_content", event.text}};
    case Kind::kContent:
    case Kind::kReasoningWasContent:
      return {{"content", event.text}};
    case Kind::kToolCallBegin:
      return call_delta({{"index", event.call},
                         {"id", event.id},
                         {"type", "function"},
                         {"function", {{"name", event.name}, {"arguments", ""}}}});
    case Kind::kToolCallArguments:
      return call_delta({{"index", event.call}, {"function", {{"arguments", event.text}}}});
    case Kind::kToolCallEnd:
      break;
  }
  return {};
}

}  // namespace

std::string finish_reason(const AnswerResult& result) {
  if (result.result.reason == FinishReason::kCancelled) return "abort";
  switch (result.end) {
    case AnswerEnd::kLength:
      return "length";
    case AnswerEnd::kToolCalls:
      return "tool_calls";
    case AnswerEnd::kStop:
      break;
  }
  return "stop";
}

std::string completion_body(const ChatHead& head, std::span<const ChatChoice> choices,
                            const AnswerUsage& usage, const ChatExtras& extras) {
  Json body = head_json(head, "chat.completion");
  body["choices"] = Json::array();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const ChatChoice& choice = choices[i];
    Json entry;
    entry["index"] = i;
    entry["message"] = message_json(choice.answer);
    entry["logprobs"] = extras.logprobs == nullptr
                            ? Json()
                            : logprobs_json({.logprobs = extras.logprobs, .tokens = choice.tokens});
    entry["finish_reason"] = choice.end.finish_reason;
    entry["matched_stop"] = matched_stop(choice.end);
    if (extras.token_ids) entry["token_ids"] = ids_json(choice.tokens);
    if (extras.prompt_ids_in_choice) entry["prompt_token_ids"] = *extras.prompt_ids;
    if (extras.meta_info) {
      entry["meta_info"] = choice_meta_info(head, choice.end);
      if (extras.logprobs != nullptr) {
        entry["meta_info"]["output_token_logprobs"] =
            token_logprobs_json(choice.tokens, extras.logprobs);
      }
    }
    body["choices"].push_back(std::move(entry));
  }
  add_usage(body, usage);
  if (extras.token_ids) body["prompt_token_ids"] = *extras.prompt_ids;
  return dump_json(body);
}

std::string role_chunk(const ChatHead& head, int choice, const ChatExtras& extras) {
  Json json = chunk_json(head, choice, {{"role", "assistant"}, {"content", ""}}, {});
  if (extras.token_ids) json["prompt_token_ids"] = *extras.prompt_ids;
  return dump_json(json);
}

std::string delta_chunk(const ChatHead& head, int choice, const OutputEvent& event,
                        const ShownTokens& shown) {
  if (shown.tokens.empty() && event.kind == OutputEvent::Kind::kContent) {
    return text_chunk(head, choice, "content", event.text);
  }
  if (shown.tokens.empty() && event.kind == OutputEvent::Kind::kReasoning) {
    return text_chunk(head, choice, "reasoning_content", event.text);
  }
  Json delta = delta_of(event);
  return delta.is_null() ? std::string()
                         : dump_json(chunk_json(head, choice, std::move(delta), shown));
}

std::string end_chunk(const ChatHead& head, int choice, const ChatEnd& end,
                      const ShownTokens& shown, const ChatExtras& extras) {
  Json json = chunk_json(head, choice, Json::object(), shown);
  Json& entry = json["choices"][0];
  entry["finish_reason"] = end.finish_reason;
  entry["matched_stop"] = matched_stop(end);
  if (extras.meta_info) entry["meta_info"] = choice_meta_info(head, end);
  return dump_json(json);
}

std::string usage_chunk(const ChatHead& head, const AnswerUsage& usage) {
  Json json = head_json(head, "chat.completion.chunk");
  json["choices"] = Json::array();
  add_usage(json, usage);
  return dump_json(json);
}

// Every chunk is an object with members, so one more fits before its last brace.
std::string with_usage(std::string chunk, const AnswerUsage& usage) {
  chunk.pop_back();
  return chunk + ",\"usage\":" + dump_json(token_usage_json(usage)) + "}";
}

}  // namespace tandem
