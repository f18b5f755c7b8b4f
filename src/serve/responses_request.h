// The body of POST /v1/responses.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "serve/generation_fields.h"
#include "text/chat.h"

namespace tandem {

struct ResponsesRequest : GenerationFields {
  ChatRequest chat;
  // What the response repeats of the body: names and the JSON texts of their values.
  std::vector<std::pair<std::string, std::string>> echo;
};

// Fields that the body leaves out, or sets to null, keep `defaults`; fields that nobody knows are
// ignored. Nothing is stored, so what builds on stored responses is refused. Errors name the field
// as OpenAI does ("input[0].content[1].type").
Result<ResponsesRequest> parse_responses_request(std::string_view body,
                                                 const SamplingParams& defaults);

// `error` of a chat request (text/chat.h), in the words of POST /v1/responses: "messages" is its
// "input", "tools[0].function.parameters" its "tools[0].parameters".
Status responses_error(Status error);

}  // namespace tandem
