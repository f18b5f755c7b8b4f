#include "serve/responses_events.h"

#include <fmt/core.h>

#include "serve/json_dump.h"
#include "serve/openai_error.h"
#include "serve/sse.h"

namespace tandem {
namespace {

using Json = OrderedJson;
using Kind = AnswerBlock::Kind;

std::string item_id(const ResponseHead& head, std::size_t index, Kind kind) {
  const char* prefix = kind == Kind::kThinking ? "rs" : kind == Kind::kText ? "msg" : "fc";
  return fmt::format("{}_{}{:04x}", prefix, std::string_view(head.id).substr(5), index);
}

Json part_json(Kind kind, const std::string& text) {
  if (kind == Kind::kThinking) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

Json item_json(const ResponseHead& head, std::size_t index, const AnswerBlock& block,
               const char* status, Json content) {
  const std::string id = item_id(head, index, block.kind);
  switch (block.kind) {
    case Kind::kThinking:
      return {{"id", id},
              {"type", "reasoning"},
              {"status", status},
              {"summary", Json::array()},
              {"content", std::move(content)}};
    case Kind::kText:
      return {{"id", id},
              {"type", "message"},
              {"status", status},
              {"role", "assistant"},
              {"content", std::move(content)}};
    case Kind::kCall:
      break;
  }
  return {{"id", id},           {"type", "function_call"},
          {"status", status},   {"call_id", block.id},
          {"name", block.name}, {"arguments", block.text}};
}

Json finished_item(const ResponseHead& head, std::size_t index, const AnswerBlock& block) {
  return item_json(head, index, block, block.whole ? "completed" : "incomplete",
                   Json::array({part_json(block.kind, block.text)}));
}

// As single precision prints it: 0.7, not 0.699999988.
Json number(float value) { return Json::parse(fmt::format("{}", value)); }

Json error_json(const Status& error) {
  return {{"code", "server_error"}, {"message", client_message(error)}};
}

Json usage_json(const AnswerUsage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cache.cached_tokens}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

// What the request asked for, or what it is taken to ask for.
Json settings_json(const ResponsesRequest& request) {
  Json json = {{"background", false},
               {"instructions", nullptr},
               {"max_output_tokens", nullptr},
               {"metadata", Json::object()},
               {"parallel_tool_calls", true},
               {"previous_response_id", nullptr},
               {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
               {"store", false},
               {"temperature", number(request.sampling.temperature)},
               {"text", {{"format", {{"type", "text"}}}}},
               {"tool_choice", "auto"},
               {"tools", Json::array()},
               {"top_logprobs", 0},
               {"top_p", number(request.sampling.top_p)},
               {"truncation", "disabled"}};
  for (const auto& [name, text] : request.echo) json[name] = Json::parse(text);
  return json;
}

Json response_json(const ResponseHead& head, const ResponseProgress& progress) {
  const bool cut_off = progress.status == std::string_view("incomplete");
  Json json = {{"id", head.id},
               {"object", "response"},
               {"created_at", head.created_at},
               {"status", progress.status},
               {"error", progress.error == nullptr ? Json() : error_json(*progress.error)},
               {"incomplete_details", cut_off ? Json({{"reason", "max_output_tokens"}}) : Json()},
               {"model", head.model},
               {"output", Json::array()}};
  for (std::size_t i = 0; i < progress.blocks.size(); ++i) {
    json["output"].push_back(finished_item(head, i, progress.blocks[i]));
  }
  json.update(settings_json(head.request));
  json["usage"] = progress.usage == nullptr ? Json() : usage_json(*progress.usage);
  return json;
}

std::string numbered(const std::string& name, std::int64_t& next_number, const Json& members) {
  Json json = {{"type", name}, {"sequence_number", next_number++}};
  json.update(members);
  return event_text(name, dump_json(json));
}

}  // namespace

const char* response_status(const AnswerResult& result) {
  return result.end == AnswerEnd::kLength ? "incomplete" : "completed";
}

std::string response_body(const ResponseHead& head, const ResponseProgress& progress) {
  return dump_json(response_json(head, progress));
}

std::string ResponseEvents::begin() {
  const Json members = {{"response", response_json(head_, {})}};
  std::string out = numbered("response.created", next_number_, members);
  return out += numbered("response.in_progress", next_number_, members);
}

std::string ResponseEvents::block_begin(std::size_t index, const AnswerBlock& block) {
  std::string out =
      numbered("response.output_item.added", next_number_,
               {{"output_index", index},
                {"item", item_json(head_, index, block, "in_progress", Json::array())}});
  if (block.kind == Kind::kCall) return out;
  return out + numbered("response.content_part.added", next_number_,
                        {{"item_id", item_id(head_, index, block.kind)},
                         {"output_index", index},
                         {"content_index", 0},
                         {"part", part_json(block.kind, {})}});
}

std::string ResponseEvents::block_text(std::size_t index, const AnswerBlock& block,
                                       std::string_view piece) {
  Json members = {{"item_id", item_id(head_, index, block.kind)}, {"output_index", index}};
  if (block.kind == Kind::kCall) {
    members["delta"] = piece;
    return numbered("response.function_call_arguments.delta", next_number_, members);
  }
  members["content_index"] = 0;
  members["delta"] = piece;
  if (block.kind == Kind::kThinking) {
    return numbered("response.reasoning_text.delta", next_number_, members);
  }
  members["logprobs"] = Json::array();
  return numbered("response.output_text.delta", next_number_, members);
}

std::string ResponseEvents::block_end(std::size_t index, const AnswerBlock& block) {
  Json members = {{"item_id", item_id(head_, index, block.kind)}, {"output_index", index}};
  std::string out;
  if (block.kind == Kind::kCall) {
    members["name"] = block.name;
    members["arguments"] = block.text;
    out = numbered("response.function_call_arguments.done", next_number_, members);
  } else {
    members["content_index"] = 0;
    Json text = members;
    text["text"] = block.text;
    if (block.kind == Kind::kText) text["logprobs"] = Json::array();
    out = numbered(
        block.kind == Kind::kText ? "response.output_text.done" : "response.reasoning_text.done",
        next_number_, text);
    members["part"] = part_json(block.kind, block.text);
    out += numbered("response.content_part.done", next_number_, members);
  }
  return out + numbered("response.output_item.done", next_number_,
                        {{"output_index", index}, {"item", finished_item(head_, index, block)}});
}

std::string ResponseEvents::end(const ResponseProgress& progress) {
  std::string out;
  if (progress.error != nullptr) {
    Json members = error_json(*progress.error);
    members["param"] = nullptr;
    out = numbered("error", next_number_, members);
  }
  return out + numbered(fmt::format("response.{}", progress.status), next_number_,
                        {{"response", response_json(head_, progress)}});
}

}  // namespace tandem
