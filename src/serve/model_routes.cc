#include "serve/model_routes.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "serve/openai_error.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// A step takes less; a stuck one is a fault.
constexpr double kStuckMs = 20'000;

// `created` is when this server began to serve it.
Json model_json(const ServedModel& model, const std::string& served_name) {
  Json json;
  json["id"] = served_name;
  json["object"] = "model";
  json["created"] = std::time(nullptr);
  json["owned_by"] = "tandem";
  json["root"] = model.name;
  json["max_model_len"] = model.engine->model().spec().context_length;
  json["cache_grid_tokens"] = model.engine->status().grid_tokens;
  json["prefill_chunk_tokens"] = prefill_chunk_tokens(*model.engine);
  return json;
}

}  // namespace

std::int64_t prefill_chunk_tokens(Engine& engine) {
  std::int64_t tokens = 0;
  engine.inspect([&](EngineInternals inside) { tokens = inside.planner.options().prefill_chunk; });
  return tokens;
}

HttpHandler health_route(const ServedModel& model, const Clock& clock) {
  return [&model, &clock](HttpRequest, const std::shared_ptr<HttpExchange>& exchange) {
    const EngineProgress progress = model.engine->progress();
    const char* status = "ok";
    if (progress.busy && milliseconds(progress.since, clock.now()) > kStuckMs) status = "stuck";
    if (model.engine->draining()) status = "draining";
    HttpResponse response{.body = fmt::format(R"({{"status":"{}"}})", status)};
    if (status != std::string_view("ok")) {
      response.status = 503;
      response.headers.push_back({"Retry-After", "1"});
    }
    exchange->respond(std::move(response));
  };
}

HttpHandler model_list_route(const ServedModel& model, const std::string& served_name) {
  Json list;
  list["object"] = "list";
  list["data"] = Json::array({model_json(model, served_name)});
  return [body = list.dump()](HttpRequest, const std::shared_ptr<HttpExchange>& exchange) {
    exchange->respond({.body = body});
  };
}

HttpHandler model_route(const ServedModel& model, const std::string& served_name) {
  return [served_name, body = model_json(model, served_name).dump()](
             HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
    if (request.parameter == served_name) return exchange->respond({.body = body});
    exchange->respond(error_response(
        {StatusCode::kNotFound,
         fmt::format("no model '{}'; this server has '{}'", request.parameter, served_name),
         "model"},
        "model_not_found"));
  };
}

}  // namespace tandem
