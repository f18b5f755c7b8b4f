// POST /v1/chat/completions: what its body asks for, and the parts of that which every chat
// protocol shares.
#pragma once

#include <string_view>

#include "serve/generation_fields.h"
#include "serve/generation_route.h"
#include "text/chat.h"

namespace tandem {

// A Prepare (generation_route.h).
Accepted<PreparedAnswer> prepare_chat_completion(const ServeContext& context,
                                                 const HttpRequest& request);

// The generation that answers `chat`; for any protocol that has parsed its body. Errors of the
// prompt carry the field of the chat request ("messages[2].role").
Accepted<Generation> chat_generation(const ServeContext& context, const ChatRequest& chat,
                                     const GenerationFields& fields);

// kNotFound unless `name` is empty or what is served.
Accepted<void> check_model(const ServeContext& context, std::string_view name);

// kInvalidArgument unless the context has room for `tokens` and one more; `field` held the prompt.
Accepted<void> check_prompt_length(const ServeContext& context, std::size_t tokens,
                                   const std::string& field);

// What `fields` say of a generation without prompts.
Generation generation_of(const ServeContext& context, const GenerationFields& fields);

}  // namespace tandem
