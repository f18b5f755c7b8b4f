#include "serve/admin_routes.h"

#include <numeric>
#include <utility>

#include "serve/metrics_text.h"
#include "serve/model_routes.h"
#include "serve/openai_error.h"

namespace tandem {
namespace {

EntryCounts evicted(const PrefixCounters& counters) {
  const auto sum = [](const auto& values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
  };
  return {sum(counters.evicted_states), sum(counters.evicted_pages)};
}

EntryCounts flush(Engine& engine) {
  EntryCounts freed;
  engine.inspect([&](EngineInternals inside) {
    const EntryCounts before = evicted(inside.cache.counters());
    while (inside.cache.evict_one()) {
    }
    const EntryCounts after = evicted(inside.cache.counters());
    freed = {after.states - before.states, after.pages - before.pages};
  });
  return freed;
}

}  // namespace

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

HttpHandler flush_route(const ServedModel& model, WorkerPool& workers) {
  return [&model, &workers](HttpRequest, const std::shared_ptr<HttpExchange>& exchange) {
    workers.run(WorkerPool::Job([engine = model.engine.get(), exchange] {
      const EntryCounts freed = flush(*engine);
      std::string body =
          fmt::format(R"({{"freed_states":{},"freed_pages":{}}})", freed.states, freed.pages);
      exchange->post([exchange, body = std::move(body)] { exchange->respond({.body = body}); });
    }));
  };
}

}  // namespace tandem
