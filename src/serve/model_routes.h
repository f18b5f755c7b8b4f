// GET /health, /v1/models and /v1/models/{id}.
#pragma once

#include <string>

#include "engine/served_model.h"
#include "serve/http.h"

namespace tandem {

// The most prompt tokens of one step.
std::int64_t prefill_chunk_tokens(Engine& engine);

// Handlers (http.h). `model` outlives them.

// 200 while requests are taken; 503 while draining, and when no step has ended for 20 s although
// there is work. Never waits.
HttpHandler health_route(const ServedModel& model, const Clock& clock);
HttpHandler model_list_route(const ServedModel& model, const std::string& served_name);
HttpHandler model_route(const ServedModel& model, const std::string& served_name);

}  // namespace tandem
