// The body of POST /v1/chat/completions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sample/sampler.h"
#include "text/chat.h"

namespace tandem {

struct ChatCompletionRequest {
  std::string model;  // empty: whatever is served
  ChatRequest chat;
  SamplingParams sampling;            // without a seed
  std::optional<std::uint64_t> seed;  // nullopt: a random one
  std::int64_t max_tokens = -1;       // -1: what the context leaves
  std::vector<std::string> stop;
  int choices = 1;
  std::string cache_salt = {};  // prompts share cached prefixes with those of the same salt only
  int priority = 0;             // higher first
  bool stream = false;
  bool include_usage = false;  // a last chunk with the usage
};

// Fields that the body leaves out, or sets to null, keep `defaults`; fields that nobody knows are
// ignored. Errors name the field. Tables in openai_request.cc say what each field takes.
Result<ChatCompletionRequest> parse_chat_completion(std::string_view body,
                                                    const SamplingParams& defaults);

}  // namespace tandem
