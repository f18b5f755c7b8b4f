// The bodies of POST /v1/messages and POST /v1/messages/count_tokens.
#pragma once

#include <string_view>

#include "base/status.h"
#include "serve/generation_fields.h"
#include "text/chat.h"

namespace tandem {

struct MessagesRequest : GenerationFields {
  ChatRequest chat;
};

enum class MessagesPurpose {
  kAnswer,  // max_tokens is required
  kCount,
};

// Thinking is off unless asked for, as in Anthropic's API; a last message of the assistant is gone
// on with. Sampling that the body leaves out is that of `defaults`; fields that nobody knows are
// ignored. Errors name the field as Anthropic does ("messages.0.content.1.text").
Result<MessagesRequest> parse_messages_request(std::string_view body,
                                               const SamplingParams& defaults,
                                               MessagesPurpose purpose);

}  // namespace tandem
