// Tools of protocols that put a function's members beside its type.
#pragma once

#include <string_view>

#include "text/json_text.h"

namespace tandem {

// {name, description, SCHEMA_KEY, strict} as OpenAI's chats spell it, which is what the chat
// formats know: {type, function: {name, description, parameters, strict}}. Whatever else a client
// puts there, such as cache_control, the model is not told.
JsonValue function_tool(const JsonValue& tool, std::string_view schema_key);

}  // namespace tandem
