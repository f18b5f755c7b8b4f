// What a request asks the content of its answer to look like, in each spelling that clients use.
#pragma once

#include "base/status.h"
#include "serve/json_fields.h"
#include "text/chat.h"

namespace tandem {

// Of OpenAI's `response_format`; `regex`, `ebnf` and `json_schema` (SGLang); `structured_outputs`
// and the older `guided_*` (vLLM); `grammar` (llama-server). kText if `body` has none of them, or
// null or empty text only; two at once are refused. Sources are not compiled here. Errors name the
// field.
Result<ResponseFormat> read_answer_format(const JsonValue& body);

}  // namespace tandem
