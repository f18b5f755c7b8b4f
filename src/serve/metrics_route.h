// GET /metrics.
#pragma once

#include <string>

#include "engine/served_model.h"
#include "serve/http.h"
#include "serve/request_totals.h"

namespace tandem {

// A handler (http.h); 501 in a build without metrics. What it is given by reference outlives it.
HttpHandler metrics_route(const ServedModel& model, std::string served_name,
                          const RequestTotals& totals);

}  // namespace tandem
