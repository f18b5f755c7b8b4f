// POST /v1/chat/completions: what its body asks for, and the parts of that which every chat
// protocol shares.
#pragma once

#include "serve/build_generation.h"
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

}  // namespace tandem
