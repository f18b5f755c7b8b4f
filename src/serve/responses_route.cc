#include "serve/responses_route.h"

#include <ctime>
#include <utility>

#include "serve/chat_route.h"
#include "serve/openai_error.h"
#include "serve/random_bits.h"
#include "serve/responses_request.h"
#include "serve/responses_writer.h"

namespace tandem {
namespace {

Refusal respelt(Refusal refusal) {
  return {responses_error(std::move(refusal.status)), std::move(refusal.code)};
}

}  // namespace

Accepted<PreparedAnswer> prepare_responses(const ServeContext& context, const HttpRequest& http) {
  auto request = TRY(parse_responses_request(http.body, context.model.default_sampling()));
  auto generation = chat_generation(context, request.chat, request).map_error(respelt);
  if (!generation) return tl::unexpected(generation.error());
  generation->grammar_error = responses_error;
  const auto prompt_tokens = static_cast<std::int64_t>(generation->prompts[0].ids.size());
  request.chat = {};  // the answer repeats only what was set
  ResponseHead head{.id = random_id("resp_"),
                    .created_at = static_cast<std::int64_t>(std::time(nullptr)),
                    .model = context.served_name,
                    .request = std::move(request)};
  return PreparedAnswer{.generation = *std::move(generation),
                        .make_writer = [head = std::move(head),
                                        prompt_tokens](std::shared_ptr<HttpExchange> exchange) {
                          return std::make_unique<ResponsesWriter>(std::move(exchange), head,
                                                                   prompt_tokens);
                        }};
}

HttpHandler stored_response_route() {
  return [](HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
    exchange->respond(error_response(
        {StatusCode::kNotFound,
         fmt::format("no response '{}': this server keeps none", request.parameter.substr(0, 100)),
         "response_id"}));
  };
}

}  // namespace tandem
