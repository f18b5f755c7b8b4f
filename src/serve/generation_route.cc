#include "serve/generation_route.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "serve/generation_fields.h"
#include "serve/guarded_job.h"
#include "serve/random_bits.h"
#include "serve/wrapped_exchange.h"

namespace tandem {
namespace {

const Status kShuttingDown = {StatusCode::kUnavailable, "the server is shutting down"};

Accepted<PreparedAnswer> prepared(const ServeContext& context, const Prepare& prepare,
                                  const HttpRequest& request) {
  if (context.model.engine->draining()) return refuse(kShuttingDown);
  auto answer = prepare(context, request);
  if (!answer) return answer;
  const Generation& asked = answer->generation;
  // More would be refused for want of places however often the client tries.
  const std::int64_t most = context.model.engine->max_requests();
  if (asked.answers() <= most) return answer;
  return refuse({StatusCode::kInvalidArgument,
                 fmt::format("{} prompts with {} choices each are {} answers; expected at most {}",
                             asked.prompts.size(), asked.choices, asked.answers(), most),
                 asked.choices > 1 ? "n" : asked.prompts_field});
}

struct RequestName {
  std::string name;
  std::string field;  // where the client gave it
};

Result<RequestName> name_of(const HttpRequest& request, const Generation& generation) {
  constexpr const char* kHeader = "X-Request-Id";
  if (!generation.request_id.empty()) {
    return RequestName{generation.request_id, generation.request_id_field};
  }
  const std::string_view header = request.header(kHeader);
  if (header.empty()) {
    return RequestName{fmt::format("req-{:016x}{:016x}", random_bits(), random_bits()), kHeader};
  }
  std::string name = TRY(read_request_id(header, kHeader));
  return RequestName{std::move(name), kHeader};
}

// Requests whose grammar waits to be compiled. At a second or two each, more would only wait.
constexpr std::size_t kMaxWaitingGrammars = 64;

// A request that is about to be submitted.
struct NamedRequest {
  PreparedAnswer answer;
  RequestRegistry::Lease lease;
  std::shared_ptr<HttpExchange> exchange;
  std::shared_ptr<const std::atomic<bool>> client_left;
};

bool must_compile(const ServedModel& model, const Generation& generation) {
  return std::any_of(generation.prompts.begin(), generation.prompts.end(),
                     [&](const GenerationPrompt& prompt) {
                       return prompt.grammar && !model.is_compiled(*prompt.grammar);
                     });
}

void submit(const ServeContext& context, ErrorFormat error_format, NamedRequest request) {
  auto writer = request.answer.make_writer(request.exchange);
  start_generation(context, std::move(request.answer.generation), std::move(request.lease),
                   request.exchange, std::move(writer), error_format);
}

// After a time in the queue of the compilers: compiles for nobody.
void submit_late(const ServeContext& context, ErrorFormat error_format, NamedRequest request) {
  if (*request.client_left) return;
  const auto& deadline = request.answer.generation.deadline;
  Status why;
  if (context.model.engine->draining()) {
    why = kShuttingDown;
  } else if (deadline && context.clock.now() >= *deadline) {
    why = {StatusCode::kDeadlineExceeded, "the time for this request passed before it could begin"};
  } else {
    return submit(context, error_format, std::move(request));
  }
  request.lease = {};  // free before the client can know
  post_response(request.exchange, error_format(why));
}

void run(const ServeContext& context, const Prepare& prepare, ErrorFormat error_format,
         HttpRequest http, const std::shared_ptr<HttpExchange>& exchange,
         std::shared_ptr<const std::atomic<bool>> client_left) {
  auto answer = prepared(context, prepare, http);
  if (!answer) return post_response(exchange, error_format(answer.error()));
  answer->generation.tenant = TenantId{http.caller.tenant};
  answer->generation.tenant_weight = http.caller.weight;
  const auto name = name_of(http, answer->generation);
  http = {};  // a large body is not kept while its answer is written
  if (!name) return post_response(exchange, error_format(name.error()));
  auto lease = context.registry.add(name->name, name->field);
  if (!lease) return post_response(exchange, error_format(lease.error()));
  const auto named =
      std::make_shared<HeaderExchange>(exchange, HttpHeader{"X-Request-Id", name->name});
  NamedRequest request{*std::move(answer), *std::move(lease), named, std::move(client_left)};
  if (!must_compile(context.model, request.answer.generation)) {
    return submit(context, error_format, std::move(request));
  }
  const bool waits = context.compilers.try_run(
      guarded_job(error_format, named,
                  [&context, error_format, request = std::move(request)]() mutable {
                    submit_late(context, error_format, std::move(request));
                  }),
      kMaxWaitingGrammars);
  if (waits) return;
  post_response(named, error_format(Status{StatusCode::kResourceExhausted,
                                           "too many requests wait for their grammars to be "
                                           "compiled; try again later"}));
}

}  // namespace

HttpHandler generation_route(const ServeContext& context, Prepare prepare,
                             ErrorFormat error_format) {
  return [&context, prepare = std::move(prepare), error_format](
             HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
    const auto client_left = std::make_shared<std::atomic<bool>>(false);
    exchange->on_gone([client_left] { *client_left = true; });
    context.workers.run(guarded_job(error_format, exchange,
                                    [&context, &prepare, error_format, request = std::move(request),
                                     exchange, client_left]() mutable {
                                      run(context, prepare, error_format, std::move(request),
                                          exchange, client_left);
                                    }));
  };
}

}  // namespace tandem
