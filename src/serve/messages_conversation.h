// The conversation of POST /v1/messages, from Anthropic's content blocks to text/chat.h.
#pragma once

#include <vector>

#include "serve/json_fields.h"
#include "text/chat.h"

namespace tandem {

// "system": a string or a list of text blocks. The billing line that Claude Code puts in front is
// left out: it changes with every request, and would keep prompts from sharing a cached prefix.
Result<ChatMessage> parse_system(const JsonValue& value);

// "messages". Each tool_result becomes a message of its own, which must answer a tool_use of the
// assistant's turn before it; an assistant's neighbouring messages are one turn.
Result<std::vector<ChatMessage>> parse_message_list(const JsonValue& value);

}  // namespace tandem
