// One event of a streamed answer in OpenAI's format, of either endpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem::loadgen {

// As the server counts. -1: it does not say.
struct AnswerUsage {
  std::int64_t prompt_tokens = -1;
  std::int64_t completion_tokens = -1;
  std::int64_t cached_tokens = -1;
};

struct CompletionChunk {
  std::string content;    // of the first choice, as `text` in completions
  std::string reasoning;  // reasoning_content or reasoning
  bool tool_call = false;
  std::optional<std::string> finish_reason = {};
  std::optional<AnswerUsage> usage = {};
  std::string error = {};  // the server's words, if it gave up

  bool shows_something() const { return tool_call || !content.empty() || !reasoning.empty(); }
};

// kInvalidArgument for what is not JSON, or not such a chunk.
Result<CompletionChunk> parse_completion_chunk(std::string_view json);

// What an error body says, or its beginning if it is not OpenAI's JSON. One line.
std::string error_summary(std::string_view body);

}  // namespace tandem::loadgen
