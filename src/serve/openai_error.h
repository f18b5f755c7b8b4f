// Errors as OpenAI's API spells them: {"error":{"message","type","param","code"}}.
#pragma once

#include <string>

#include "base/status.h"
#include "serve/http.h"
#include "serve/refusal.h"

namespace tandem {

// "temperature: expected ...": the message with its field in front, where it does not begin with it
// already; cut where a client's text makes it long, perhaps within a character.
std::string client_message(const Status& status);

// `code` is a word that programs look for, such as "model_not_found"; empty for none.
std::string error_body(int status, const std::string& message, const std::string& param = {},
                       const std::string& code = {});
// The same of a Status: param is its field.
std::string error_body(const Status& status, const std::string& code = {});

HttpResponse error_response(int status, const std::string& message);
HttpResponse error_response(const Status& status, const std::string& code = {});

// A DenialFormat (refusal.h).
HttpResponse openai_denial(int status, const std::string& message);

// An ErrorFormat (refusal.h).
HttpResponse openai_error_format(const Refusal& refusal);

}  // namespace tandem
