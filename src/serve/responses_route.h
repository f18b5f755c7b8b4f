// POST /v1/responses, OpenAI's second chat protocol, and the routes of stored responses.
#pragma once

#include "serve/generation_route.h"

namespace tandem {

// A Prepare (generation_route.h).
Accepted<PreparedAnswer> prepare_responses(const ServeContext& context, const HttpRequest& request);

// Whatever a client asks of a stored response: none is ever kept, so there is none of that id.
HttpHandler stored_response_route();

}  // namespace tandem
