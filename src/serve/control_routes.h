// What routers and training frameworks ask a server beside answers: who it is, and to let go of
// requests.
#pragma once

#include "serve/http.h"
#include "serve/serve_context.h"

namespace tandem {

// Handlers (http.h); `context` outlives them.

// GET /model_info and /get_model_info: of the checkpoint.
HttpHandler model_info_route(const ServeContext& context);
// GET /server_info and /get_server_info: of the process, and what it is doing.
HttpHandler server_info_route(const ServeContext& context);
// POST /abort_request {rid, abort_all}: ends the requests whose name begins with `rid`; always 200.
HttpHandler abort_route(const ServeContext& context);
// GET and POST /flush_cache?timeout=SECONDS: evicts every cached prefix once no request holds any,
// waiting up to the timeout (1 s); 400 if some still do.
HttpHandler flush_route(const ServeContext& context);
// POST of what this server knows and does not do: 400 with `why`.
HttpHandler unsupported_route(std::string why);

}  // namespace tandem
