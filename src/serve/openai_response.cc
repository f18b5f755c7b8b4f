#include "serve/openai_response.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/utf8.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity.
constexpr double kImpossible = -9999.0;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A token may end within a character: `token` shows U+FFFD there, `bytes` is exact.
Json token_json(const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  Json values = Json::array();
  for (const char byte : bytes) values.push_back(static_cast<unsigned char>(byte));
  Json json;
  json["token"] = repair_utf8(bytes);
  json["logprob"] = std::isfinite(logprob) ? static_cast<double>(logprob) : kImpossible;
  json["bytes"] = std::move(values);
  return json;
}

Json logprobs_json(TokenLogprobs logprobs) {
  Json content = Json::array();
  for (const SampledToken& token : logprobs.tokens) {
    Json entry = token_json(*logprobs.tokenizer, token.id, token.logprob);
    Json top = Json::array();
    for (const TokenLogprob& other : token.top) {
      top.push_back(token_json(*logprobs.tokenizer, other.id, other.logprob));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  Json json;
  json["content"] = std::move(content);
  return json;
}

double per_second(std::int64_t tokens, double ms) {
  return ms > 0 ? static_cast<double>(tokens) * 1000 / ms : 0;
}

Json prompt_details(const CacheUse& cache) {
  Json json;
  json["cached_tokens"] = cache.cached_tokens;
  json["replayed_tokens"] = cache.replayed_tokens;
  json["cache_miss"] = to_string(cache.miss);
  if (cache.miss == CacheMiss::kDiffers) json["differs_at"] = cache.text_tokens;
  return json;
}

void add_usage(Json& body, const AnswerUsage& usage) {
  const std::int64_t computed_tokens = usage.prompt_tokens - usage.cache.cached_tokens;
  body["usage"] = {{"prompt_tokens", usage.prompt_tokens},
                   {"completion_tokens", usage.completion_tokens},
                   {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
                   {"prompt_tokens_details", prompt_details(usage.cache)},
                   {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
  body["timings"] = {{"queue_ms", usage.queue_ms},
                     {"prefill_ms", usage.prefill_ms},
                     {"decode_ms", usage.decode_ms},
                     {"prefill_tokens_per_s", per_second(computed_tokens, usage.prefill_ms)},
                     {"decode_tokens_per_s", per_second(usage.completion_tokens, usage.decode_ms)}};
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

Json matched_stop(const ChatEnd& end) {
  if (!end.stop_string.empty()) return end.stop_string;
  return end.stop_id ? Json(*end.stop_id) : Json();
}

// `end` of the last chunk of a choice, else nullptr.
std::string chunk(const ChatHead& head, int choice, Json delta, const ChatEnd* end,
                  TokenLogprobs logprobs) {
  Json json = head_json(head, "chat.completion.chunk");
  Json entry;
  entry["index"] = choice;
  entry["delta"] = std::move(delta);
  if (logprobs.tokenizer != nullptr) entry["logprobs"] = logprobs_json(logprobs);
  entry["finish_reason"] = end == nullptr ? Json() : Json(end->finish_reason);
  if (end != nullptr) entry["matched_stop"] = matched_stop(*end);
  json["choices"] = Json::array({std::move(entry)});
  return dump(json);
}

// As chunk() writes it, without the tree: nearly all of a stream is these.
std::string text_chunk(const ChatHead& head, int choice, const char* field,
                       const std::string& text) {
  return fmt::format(
      R"({{"id":{},"object":"chat.completion.chunk","created":{},"model":{},"choices":[{{"index":{},)"
      R"("delta":{{"{}":{}}},"finish_reason":null}}]}})",
      dump(head.id), head.created, dump(head.model), choice, field, dump(text));
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

std::string completion_body(const ChatHead& head, std::span<const ChatChoice> choices,
                            const AnswerUsage& usage, const Tokenizer* logprobs) {
  Json body = head_json(head, "chat.completion");
  body["choices"] = Json::array();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const ChatChoice& choice = choices[i];
    Json entry;
    entry["index"] = i;
    entry["message"] = message_json(choice.answer);
    entry["logprobs"] = logprobs == nullptr ? Json() : logprobs_json({logprobs, choice.tokens});
    entry["finish_reason"] = choice.end.finish_reason;
    entry["matched_stop"] = matched_stop(choice.end);
    body["choices"].push_back(std::move(entry));
  }
  add_usage(body, usage);
  return dump(body);
}

std::string role_chunk(const ChatHead& head, int choice) {
  return chunk(head, choice, {{"role", "assistant"}, {"content", ""}}, nullptr, {});
}

std::string delta_chunk(const ChatHead& head, int choice, const OutputEvent& event,
                        TokenLogprobs logprobs) {
  if (logprobs.tokenizer == nullptr && event.kind == OutputEvent::Kind::kContent) {
    return text_chunk(head, choice, "content", event.text);
  }
  if (logprobs.tokenizer == nullptr && event.kind == OutputEvent::Kind::kReasoning) {
    return text_chunk(head, choice, "reasoning_content", event.text);
  }
  Json delta = delta_of(event);
  return delta.is_null() ? std::string() : chunk(head, choice, std::move(delta), nullptr, logprobs);
}

std::string end_chunk(const ChatHead& head, int choice, const ChatEnd& end,
                      TokenLogprobs logprobs) {
  return chunk(head, choice, Json::object(), &end, logprobs);
}

std::string usage_chunk(const ChatHead& head, const AnswerUsage& usage) {
  Json json = head_json(head, "chat.completion.chunk");
  json["choices"] = Json::array();
  add_usage(json, usage);
  return dump(json);
}

}  // namespace tandem
