// POST /v1/chat/completions: from a body to a running request.
#pragma once

#include <memory>
#include <string>

#include "engine/served_model.h"
#include "serve/http.h"
#include "serve/request_log.h"
#include "serve/request_totals.h"
#include "serve/worker_pool.h"

namespace tandem {

// A handler (http.h). Parsing and tokenising run on `workers`. Every request that ends is
// counted in `totals`, and `log` follows each. What it is given by reference outlives it.
class ChatRoute {
 public:
  ChatRoute(const ServedModel& model, std::string served_name, WorkerPool& workers,
            RequestTotals& totals, RequestLog& log);

  void operator()(HttpRequest request, std::shared_ptr<HttpExchange> exchange) const;

 private:
  const ServedModel& model_;
  std::string served_name_;
  WorkerPool& workers_;
  RequestTotals& totals_;
  RequestLog& log_;
};

}  // namespace tandem
