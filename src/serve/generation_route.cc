#include "serve/generation_route.h"

#include <new>
#include <utility>

#include "serve/generation_fields.h"
#include "serve/random_bits.h"
#include "serve/wrapped_exchange.h"

namespace tandem {
namespace {

Accepted<PreparedAnswer> prepared(const ServeContext& context, const Prepare& prepare,
                                  const HttpRequest& request) {
  if (context.model.engine->draining()) {
    return refuse({StatusCode::kUnavailable, "the server is shutting down"});
  }
  return prepare(context, request);
}

Result<std::string> name_of(const HttpRequest& request, const Generation& generation) {
  if (!generation.request_id.empty()) return generation.request_id;
  const std::string_view header = request.header("X-Request-Id");
  if (!header.empty()) return read_request_id(header, "X-Request-Id");
  return fmt::format("req-{:016x}{:016x}", random_bits(), random_bits());
}

void run(const ServeContext& context, const Prepare& prepare, ErrorFormat error_format,
         HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
  auto answer = prepared(context, prepare, request);
  if (!answer) return post_response(exchange, error_format(answer.error()));
  answer->generation.tenant = TenantId{request.caller.tenant};
  answer->generation.tenant_weight = request.caller.weight;
  const auto name = name_of(request, answer->generation);
  request = {};  // a large body is not kept while its answer is written
  if (!name) return post_response(exchange, error_format(name.error()));
  auto lease = context.registry.add(*name);
  if (!lease) return post_response(exchange, error_format(lease.error()));
  const auto named = std::make_shared<HeaderExchange>(exchange, HttpHeader{"X-Request-Id", *name});
  start_generation(context, std::move(answer->generation), *std::move(lease), named,
                   answer->make_writer(named), error_format);
}

}  // namespace

HttpHandler generation_route(const ServeContext& context, Prepare prepare,
                             ErrorFormat error_format) {
  return [&context, prepare = std::move(prepare), error_format](
             HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
    context.workers.run(WorkerPool::Job(
        [&context, &prepare, error_format, request = std::move(request), exchange]() mutable {
          try {
            run(context, prepare, error_format, std::move(request), exchange);
          } catch (const std::bad_alloc&) {
            post_response(exchange,
                          error_format(Status{StatusCode::kUnavailable,
                                              "no memory for this request; try again later"}));
          }
        }));
  };
}

}  // namespace tandem
