// POST /v1/messages, as Anthropic's clients speak it, and /v1/messages/count_tokens.
#pragma once

#include "serve/generation_route.h"

namespace tandem {

// A Prepare (generation_route.h).
Accepted<PreparedAnswer> prepare_messages(const ServeContext& context, const HttpRequest& request);

// Answers with the tokens of the prompt, whether it fits the context or not. `context` outlives it.
HttpHandler count_tokens_route(const ServeContext& context);

}  // namespace tandem
