// GET /metrics and POST /flush_cache.
#pragma once

#include <string>

#include "engine/served_model.h"
#include "serve/http.h"
#include "serve/request_totals.h"
#include "serve/worker_pool.h"

namespace tandem {

// Handlers (http.h). What they are given by reference outlives them.

// 501 in a build without metrics.
HttpHandler metrics_route(const ServedModel& model, std::string served_name,
                          const RequestTotals& totals);

// Evicts what no request holds and says how much that was. Waits for the running step, on a worker.
HttpHandler flush_route(const ServedModel& model, WorkerPool& workers);

}  // namespace tandem
