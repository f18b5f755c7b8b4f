// POST /generate.
#pragma once

#include "serve/generation_route.h"

namespace tandem {

// A Prepare (generation_route.h).
Accepted<PreparedAnswer> prepare_native(const ServeContext& context, const HttpRequest& request);

}  // namespace tandem
