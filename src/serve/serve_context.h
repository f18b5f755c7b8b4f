// What every route is made from.
#pragma once

#include <string>

#include "engine/served_model.h"
#include "serve/request_log.h"
#include "serve/request_totals.h"
#include "serve/worker_pool.h"

namespace tandem {

// Immutable; what it refers to is thread-safe. All of it outlives the routes.
struct ServeContext {
  const ServedModel& model;
  std::string served_name;
  WorkerPool& workers;    // parsing and tokenising run here
  RequestTotals& totals;  // counts every request that ends
  RequestLog& log;        // follows every request
};

}  // namespace tandem
