#include "serve/generation_route.h"

#include <new>
#include <utility>

namespace tandem {
namespace {

void respond(const std::shared_ptr<HttpExchange>& exchange, HttpResponse response) {
  exchange->post([exchange, response = std::move(response)] { exchange->respond(response); });
}

Accepted<PreparedAnswer> prepared(const ServeContext& context, const Prepare& prepare,
                                  const HttpRequest& request) {
  if (context.model.engine->draining()) {
    return refuse({StatusCode::kUnavailable, "the server is shutting down"});
  }
  return prepare(context, request);
}

void run(const ServeContext& context, const Prepare& prepare, ErrorFormat error_format,
         HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
  auto answer = prepared(context, prepare, request);
  request = {};  // a large body is not kept while its answer is written
  if (!answer) return respond(exchange, error_format(answer.error()));
  start_generation(context, std::move(answer->generation), exchange, answer->make_writer(exchange),
                   error_format);
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
            respond(exchange, error_format(Status{StatusCode::kUnavailable,
                                                  "no memory for this request; try again later"}));
          }
        }));
  };
}

}  // namespace tandem
