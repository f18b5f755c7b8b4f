#include "loadgen/completion_chunk.h"

#include <nlohmann/json.hpp>

namespace tandem::loadgen {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxSummaryBytes = 160;

// nullptr if `json` is no object or has no such member, or null there.
const Json* member(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const Json& json, const char* name) {
  const Json* value = member(json, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::int64_t count_of(const Json& json, const char* name) {
  const Json* value = member(json, name);
  return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : -1;
}

AnswerUsage usage_of(const Json& json) {
  AnswerUsage usage{.prompt_tokens = count_of(json, "prompt_tokens"),
                    .completion_tokens = count_of(json, "completion_tokens")};
  if (const Json* details = member(json, "prompt_tokens_details")) {
    usage.cached_tokens = count_of(*details, "cached_tokens");
  }
  return usage;
}

std::string error_of(const Json& error) {
  if (error.is_string()) return error.get<std::string>();
  const std::string message = text_of(error, "message");
  return message.empty() ? error.dump() : message;
}

void read_choice(const Json& choice, CompletionChunk& chunk) {
  if (const Json* delta = member(choice, "delta")) {
    chunk.content = text_of(*delta, "content");
    chunk.reasoning = text_of(*delta, "reasoning_content");
    if (chunk.reasoning.empty()) chunk.reasoning = text_of(*delta, "reasoning");
    chunk.tool_call = member(*delta, "tool_calls") != nullptr;
  } else {
    chunk.content = text_of(choice, "text");
  }
  if (const Json* reason = member(choice, "finish_reason"); reason && reason->is_string()) {
    chunk.finish_reason = reason->get<std::string>();
  }
}

std::string one_line(std::string_view text) {
  std::string line(text.substr(0, kMaxSummaryBytes));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return line;
}

}  // namespace

Result<CompletionChunk> parse_completion_chunk(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return invalid("not a JSON object: {}", one_line(text));
  CompletionChunk chunk;
  if (const Json* error = member(json, "error")) {
    chunk.error = one_line(error_of(*error));
    return chunk;
  }
  if (const Json* usage = member(json, "usage")) chunk.usage = usage_of(*usage);
  const Json* choices = member(json, "choices");
  if (choices == nullptr || !choices->is_array()) {
    return invalid("a chunk without choices: {}", one_line(text));
  }
  if (!choices->empty()) read_choice(choices->front(), chunk);
  return chunk;
}

std::string error_summary(std::string_view body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  const Json* error = member(json, "error");
  return one_line(error != nullptr ? error_of(*error) : body);
}

}  // namespace tandem::loadgen
