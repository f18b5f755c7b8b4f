// The body of POST /v1/chat/completions.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "serve/generation_fields.h"
#include "text/chat.h"

namespace tandem {

// Where the thinking goes.
enum class ReasoningText { kSeparate, kInContent, kLeftOut };

struct ChatCompletionRequest : GenerationFields {
  ChatRequest chat = {};
  ReasoningText reasoning = ReasoningText::kSeparate;
};

// Fields that the body leaves out, or sets to null, keep `defaults`; fields that nobody knows are
// counted. Errors name the field. The tables in openai_request.cc and generation_fields.cc say what
// each field takes.
Result<ChatCompletionRequest> parse_chat_completion(std::string_view body,
                                                    const SamplingParams& defaults);

// Of the fields that only chats have: those that are read, and those that are refused.
const std::vector<std::string_view>& chat_field_names();
const std::vector<std::string_view>& chat_refused_names();

}  // namespace tandem
