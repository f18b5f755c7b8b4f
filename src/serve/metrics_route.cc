#include "serve/metrics_route.h"

#include <utility>

#include "serve/metrics_text.h"
#include "serve/model_routes.h"
#include "serve/openai_error.h"

namespace tandem {
HttpHandler metrics_route(const ServedModel& model, std::string served_name,
                          const RequestTotals& totals) {
  const std::int64_t chunk_tokens = prefill_chunk_tokens(*model.engine);
  return [&model, &totals, chunk_tokens, served_name = std::move(served_name)](
             HttpRequest, const std::shared_ptr<HttpExchange>& exchange) {
    auto text = metrics_text({.engine = model.engine->status(),
                              .requests = totals.counts(),
                              .prefill_chunk_tokens = chunk_tokens,
                              .context_tokens = model.engine->model().spec().context_length,
                              .served_name = served_name});
    if (!text) {
      return exchange->respond(error_response(
          Status{StatusCode::kUnimplemented, "this build has no metrics (TANDEM_METRICS)"}));
    }
    exchange->respond(
        {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = *std::move(text)});
  };
}

}  // namespace tandem
