// From what a request asks for to what the engine is asked: the checks that every protocol shares.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/generation.h"
#include "serve/generation_fields.h"
#include "serve/refusal.h"
#include "serve/serve_context.h"

namespace tandem {

// kNotFound unless `name` is empty or what is served.
Accepted<void> check_model(const ServeContext& context, std::string_view name);

// kInvalidArgument unless there are tokens, and the context has room for them and one more; `field`
// held the prompt.
Accepted<void> check_prompt_length(const ServeContext& context, std::size_t tokens,
                                   const std::string& field);

// What `fields` say of a generation, without prompts: model, strictness and stop ids are checked,
// unknown fields counted.
Accepted<Generation> generation_of(const ServeContext& context, const GenerationFields& fields);

// How the text of a chat's answer ends.
AnswerEnding chat_ending(const GenerationFields& fields);

// Adds a prompt whose answer is text without structure. Needs a tokenizer.
Accepted<void> add_plain_prompt(const ServeContext& context, const GenerationFields& fields,
                                std::vector<TokenId> ids, const std::string& field,
                                Generation& generation);

}  // namespace tandem
