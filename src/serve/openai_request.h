// The body of POST /v1/chat/completions.
#pragma once

#include <string_view>

#include "base/status.h"
#include "serve/generation_fields.h"
#include "text/chat.h"

namespace tandem {

struct ChatCompletionRequest : GenerationFields {
  ChatRequest chat;
};

// Fields that the body leaves out, or sets to null, keep `defaults`; fields that nobody knows are
// ignored. Errors name the field. Tables in openai_request.cc say what each field takes.
Result<ChatCompletionRequest> parse_chat_completion(std::string_view body,
                                                    const SamplingParams& defaults);

}  // namespace tandem
