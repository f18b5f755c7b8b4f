// GET /live: what the server is doing, as JSON; the console's live page asks every second.
#pragma once

#include <string>

#include "engine/served_model.h"
#include "serve/http.h"
#include "serve/request_log.h"

namespace tandem {

// What one answer tells; docs/console.md lists the fields.
std::string live_body(const EngineStatus& engine, const RequestLog& log,
                      const std::string& served_name);

// A handler (http.h). `model` and `log` outlive it.
HttpHandler live_route(const ServedModel& model, std::string served_name, const RequestLog& log);

}  // namespace tandem
