// Errors as Anthropic's API spells them: {"type":"error","error":{"type","message"}}. There is no
// member for the field at fault, so every message begins with it.
#pragma once

#include <string>

#include "base/status.h"
#include "serve/http.h"
#include "serve/refusal.h"

namespace tandem {

std::string messages_error_body(const Status& status);

// A DenialFormat (refusal.h).
HttpResponse messages_denial(int status, const std::string& message);

// An ErrorFormat (refusal.h).
HttpResponse messages_error_format(const Refusal& refusal);

// `error` of a chat request (text/chat.h), in the words of POST /v1/messages: "tools[0].function.
// parameters" is its "tools.0.input_schema".
Status messages_error(Status error);

}  // namespace tandem
