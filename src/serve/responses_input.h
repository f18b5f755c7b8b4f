// "input" of POST /v1/responses, from OpenAI's items to text/chat.h.
#pragma once

#include <vector>

#include "serve/json_fields.h"
#include "text/chat.h"

namespace tandem {

// A string is one message of the user. Of a list, neighbouring items of the assistant (reasoning,
// messages, function calls) are one turn; each function_call_output must answer a call of the turn
// before it. Errors name the item as OpenAI does ("input[2].call_id").
Result<std::vector<ChatMessage>> parse_responses_input(const JsonValue& value);

}  // namespace tandem
