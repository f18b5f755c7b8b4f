// What every route is made from.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/worker_pool.h"
#include "engine/served_model.h"
#include "serve/request_log.h"
#include "serve/request_registry.h"
#include "serve/request_totals.h"

namespace tandem {

// Immutable; what it refers to is thread-safe. All of it outlives the routes.
struct ServeContext {
  const ServedModel& model;
  std::string served_name;
  WorkerPool& workers;          // parsing and tokenising run here
  WorkerPool& compilers;        // for requests with a grammar that has to be compiled
  WorkerPool& waiting_workers;  // for what may wait for seconds
  RequestTotals& totals;        // counts every request that ends
  RequestLog& log;              // follows every request
  RequestRegistry& registry;
  const Clock& clock;
  bool strict_fields = false;  // unknown fields are refused
};

}  // namespace tandem
