// Routes that generate. A protocol is a Prepare, which parses a request, and an AnswerWriter, which
// answers in the protocol's shape; all else is shared.
#pragma once

#include <functional>
#include <memory>

#include "serve/answer_writer.h"
#include "serve/generation.h"
#include "serve/http.h"
#include "serve/refusal.h"
#include "serve/serve_context.h"

namespace tandem {

// What a protocol makes of a request.
struct PreparedAnswer {
  Generation generation;
  std::function<std::unique_ptr<AnswerWriter>(std::shared_ptr<HttpExchange>)> make_writer;
};

// Runs on a worker thread; the request dies before the engine is asked.
using Prepare = std::function<Accepted<PreparedAnswer>(const ServeContext& context,
                                                       const HttpRequest& request)>;

// A handler (http.h). `context` outlives it. Refuses by itself while the server drains. The
// request's name is the body's, or the header X-Request-Id, or made up; the response carries it in
// that header.
HttpHandler generation_route(const ServeContext& context, Prepare prepare,
                             ErrorFormat error_format);

}  // namespace tandem
