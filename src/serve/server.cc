#include "serve/server.h"

#include <signal.h>

#include <utility>

#include "base/log.h"
#include "serve/access.h"
#include "serve/chat_route.h"
#include "serve/completion_route.h"
#include "serve/console.h"
#include "serve/control_routes.h"
#include "serve/generate_route.h"
#include "serve/health_check.h"
#include "serve/http_server.h"
#include "serve/idempotency.h"
#include "serve/live_route.h"
#include "serve/messages_error.h"
#include "serve/messages_route.h"
#include "serve/metrics_route.h"
#include "serve/model_routes.h"
#include "serve/openai_error.h"
#include "serve/responses_route.h"
#include "serve/router.h"
#include "serve/tokenize_routes.h"

namespace tandem {
namespace {

// A body may take a worker for a second or two; with several the others get through.
constexpr int kWorkers = 4;
// Likewise a grammar; more would take the processors from the engine.
constexpr int kCompilers = 2;

constexpr const char* kNoEmbeddings = "this model generates text; it has no embeddings or scores";

// A route, who may use it, and how a refusal is spelt.
struct GuardedRoute {
  Route route;
  Access access = Access::kOpen;
  DenialFormat denial = openai_denial;
};

std::vector<GuardedRoute> guarded_routes(const ServeContext& context) {
  const ServedModel& model = context.model;
  const std::string& name = context.served_name;
  const HttpHandler health = health_route(model, context.clock);
  const HttpHandler tokenize = tokenize_route(context);
  const HttpHandler detokenize = detokenize_route(context);
  const HttpHandler model_info = model_info_route(context);
  const HttpHandler server_info = server_info_route(context);
  const HttpHandler flush = flush_route(context);
  const HttpHandler unsupported = unsupported_route(kNoEmbeddings);
  const auto answers = std::make_shared<IdempotencyStore>(IdempotencyStore::Limits{});
  const auto generating = [&](Prepare prepare, ErrorFormat errors = openai_error_format) {
    return idempotent(answers, generation_route(context, std::move(prepare), errors));
  };
  using enum Access;
  std::vector<GuardedRoute> routes = {
      {{"POST", "/v1/chat/completions", generating(prepare_chat_completion)}, kGenerate},
      {{"POST", "/v1/completions", generating(prepare_completion)}, kGenerate},
      {{"POST", "/generate", generating(prepare_native)}, kGenerate},
      {{"GET", "/health_generate", generating(prepare_health_check)}, kOpen},
      {{"GET", "/health", health}, kOpen},
      {{"GET", "/ping", health}, kOpen},
      {{"GET", "/v1/models", model_list_route(model, name)}, kKnown},
      {{"GET", "/v1/models/{id}", model_route(model, name)}, kKnown},
      {{"POST", "/v1/responses", generating(prepare_responses)}, kGenerate},
      {{"GET", "/v1/responses/{id}", stored_response_route()}, kKnown},
      {{"POST", "/v1/responses/{id}", stored_response_route()}, kKnown},
      {{"DELETE", "/v1/responses/{id}", stored_response_route()}, kKnown},
      {{"POST", "/v1/messages", generating(prepare_messages, messages_error_format)},
       kGenerate,
       messages_denial},
      {{"POST", "/v1/messages/count_tokens", count_tokens_route(context)}, kKnown, messages_denial},
      {{"GET", "/model_info", model_info}, kKnown},
      {{"GET", "/get_model_info", model_info}, kKnown},
      {{"GET", "/server_info", server_info}, kKnown},
      {{"GET", "/get_server_info", server_info}, kKnown},
      {{"GET", "/live", live_route(model, name, context.log)}, kKnown},
      {{"GET", "/metrics", metrics_route(model, name, context.totals)}, kOpen},
      {{"POST", "/tokenize", tokenize}, kKnown},
      {{"POST", "/v1/tokenize", tokenize}, kKnown},
      {{"POST", "/detokenize", detokenize}, kKnown},
      {{"POST", "/v1/detokenize", detokenize}, kKnown},
      {{"POST", "/abort_request", abort_route(context)}, kAdmin},
      {{"GET", "/flush_cache", flush}, kAdmin},
      {{"POST", "/flush_cache", flush}, kAdmin},
      {{"POST", "/reset_prefix_cache", flush}, kAdmin},
      {{"POST", "/v1/embeddings", unsupported}, kKnown},
      {{"POST", "/v1/rerank", unsupported}, kKnown},
      {{"POST", "/v1/score", unsupported}, kKnown},
      {{"POST", "/v1/classify", unsupported}, kKnown},
  };
  for (Route& file : console_routes()) routes.push_back({std::move(file)});
  return routes;
}

std::vector<Route> routes(const ServeContext& context, const AccessControl& access) {
  std::vector<Route> routes;
  for (GuardedRoute& guarded : guarded_routes(context)) {
    Route& route = routes.emplace_back(std::move(guarded.route));
    route.handler = access.guard(guarded.access, std::move(route.handler), guarded.denial);
  }
  return routes;
}

DenialFormat denial_of(std::string_view path) {
  return path.starts_with("/v1/messages") ? messages_denial : openai_denial;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServedModel& model, const ServerOptions& options)
      : model_(model),
        options_(options),
        workers_(std::make_unique<WorkerPool>(kWorkers)),
        compilers_(std::make_unique<WorkerPool>(kCompilers)),
        waiting_workers_(std::make_unique<WorkerPool>(1)),
        context_{.model = model,
                 .served_name = options.served_name.empty() ? model.name : options.served_name,
                 .workers = *workers_,
                 .compilers = *compilers_,
                 .waiting_workers = *waiting_workers_,
                 .totals = totals_,
                 .log = log_,
                 .registry = registry_,
                 .clock = clock_,
                 .strict_fields = options.strict_fields} {}

  // In this order: nobody asks any more; what a worker submitted last learns that its client has
  // gone; the engine lets go of every exchange; the network may go.
  ~Impl() {
    workers_.reset();
    compilers_.reset();
    waiting_workers_.reset();
    if (http_) http_->run_posted();
    model_.engine->wait_idle();
  }

  Result<void> listen() {
    auto keys = TRY(ApiKeys::create(options_.api_keys, clock_));
    access_ = std::make_unique<AccessControl>(std::move(keys), options_.admin_key,
                                              is_loopback(options_.host));
    http_ = TRY(HttpServer::listen(
        {.host = options_.host,
         .port = options_.port,
         .limits = options_.limits,
         .headers = {{"Access-Control-Allow-Origin", "*"}},
         .refusal = [](int status,
                       const std::string& message) { return error_response(status, message); }},
        Router(routes(context_, *access_), denial_of)));
    return {};
  }

  int port() const { return http_->port(); }
  std::string url() const {
    const bool ipv6 = options_.host.find(':') != std::string::npos;
    return fmt::format("http://{}{}{}:{}", ipv6 ? "[" : "", options_.host, ipv6 ? "]" : "", port());
  }

  void drain_on_signals() {
    http_->on_first_signal({SIGINT, SIGTERM}, [this] {
      log_info("draining; a second signal ends at once");
      drain();
    });
  }

  void run() { http_->run(); }

  void drain() {
    model_.engine->start_draining();
    http_->drain(options_.drain_timeout);
  }

 private:
  const ServedModel& model_;
  ServerOptions options_;
  RequestTotals totals_;
  const SystemClock clock_;
  RequestLog log_{clock_};
  RequestRegistry registry_;
  std::unique_ptr<WorkerPool> workers_;
  std::unique_ptr<WorkerPool> compilers_;
  std::unique_ptr<WorkerPool> waiting_workers_;
  const ServeContext context_;
  std::unique_ptr<AccessControl> access_;
  std::unique_ptr<HttpServer> http_;
};

Result<std::unique_ptr<Server>> Server::start(const ServedModel& model,
                                              const ServerOptions& options) {
  auto impl = std::make_unique<Impl>(model, options);
  TRY(impl->listen());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

int Server::port() const { return impl_->port(); }
std::string Server::url() const { return impl_->url(); }
void Server::drain_on_signals() { impl_->drain_on_signals(); }
void Server::run() { impl_->run(); }
void Server::drain() { impl_->drain(); }

}  // namespace tandem
