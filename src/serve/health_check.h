// GET /health_generate: 200 once the model has made a token.
#pragma once

#include "serve/generation_route.h"

namespace tandem {

// A Prepare (generation_route.h).
Accepted<PreparedAnswer> prepare_health_check(const ServeContext& context,
                                              const HttpRequest& request);

}  // namespace tandem
