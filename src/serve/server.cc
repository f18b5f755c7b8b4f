#include "serve/server.h"

#include <signal.h>

#include <utility>

#include "base/log.h"
#include "serve/admin_routes.h"
#include "serve/chat_route.h"
#include "serve/console.h"
#include "serve/http_server.h"
#include "serve/live_route.h"
#include "serve/messages_error.h"
#include "serve/messages_route.h"
#include "serve/model_routes.h"
#include "serve/openai_error.h"
#include "serve/responses_route.h"
#include "serve/router.h"

namespace tandem {
namespace {

// A body may take a worker for seconds; with a second one the others get through.
constexpr int kWorkers = 2;

std::vector<Route> routes(const ServeContext& context) {
  const ServedModel& model = context.model;
  const std::string& name = context.served_name;
  std::vector<Route> routes = {
      {"GET", "/health", health_route(model)},
      {"GET", "/v1/models", model_list_route(model, name)},
      {"GET", "/v1/models/{id}", model_route(model, name)},
      {"POST", "/v1/chat/completions",
       generation_route(context, prepare_chat_completion, openai_error_format)},
      {"POST", "/v1/responses", generation_route(context, prepare_responses, openai_error_format)},
      {"GET", "/v1/responses/{id}", stored_response_route()},
      {"POST", "/v1/responses/{id}", stored_response_route()},
      {"DELETE", "/v1/responses/{id}", stored_response_route()},
      {"POST", "/v1/messages", generation_route(context, prepare_messages, messages_error_format)},
      {"POST", "/v1/messages/count_tokens", count_tokens_route(context)},
      {"GET", "/live", live_route(model, name, context.log)},
      {"GET", "/metrics", metrics_route(model, name, context.totals)},
      {"POST", "/flush_cache", flush_route(model, context.workers)},
  };
  for (Route& file : console_routes()) routes.push_back(std::move(file));
  return routes;
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServedModel& model, const ServerOptions& options)
      : model_(model),
        options_(options),
        workers_(std::make_unique<WorkerPool>(kWorkers)),
        context_{model, options.served_name.empty() ? model.name : options.served_name, *workers_,
                 totals_, log_} {}

  // In this order: nobody asks any more; what a worker submitted last learns that its client has
  // gone; the engine lets go of every exchange; the network may go.
  ~Impl() {
    workers_.reset();
    if (http_) http_->run_posted();
    model_.engine->wait_idle();
  }

  Result<void> listen() {
    http_ = TRY(HttpServer::listen(
        {.host = options_.host,
         .port = options_.port,
         .limits = options_.limits,
         .headers = {{"Access-Control-Allow-Origin", "*"}},
         .refusal = [](int status,
                       const std::string& message) { return error_response(status, message); }},
        Router(routes(context_))));
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
  std::unique_ptr<WorkerPool> workers_;
  const ServeContext context_;
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
