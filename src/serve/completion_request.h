// The body of POST /v1/completions.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "serve/generation_fields.h"
#include "serve/text_prompts.h"

namespace tandem {

struct CompletionRequest : GenerationFields {
  TextPrompts input = {};
  bool echo = false;  // the text begins with the prompt's
};

// max_tokens is 16 if the body says nothing, and 0 only with echo. Otherwise as
// parse_chat_completion (openai_request.h).
Result<CompletionRequest> parse_completion(std::string_view body, const SamplingParams& defaults,
                                           const Tokenizer& tokenizer);

// Of the fields that only completions have: those that are read.
const std::vector<std::string_view>& completion_field_names();

}  // namespace tandem
