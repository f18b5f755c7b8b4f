#include "serve/messages_route.h"

#include <utility>

#include "serve/chat_route.h"
#include "serve/guarded_job.h"
#include "serve/messages_error.h"
#include "serve/messages_request.h"
#include "serve/messages_writer.h"
#include "serve/random_bits.h"

namespace tandem {
namespace {

Refusal respelt(Refusal refusal) {
  return {messages_error(std::move(refusal.status)), std::move(refusal.code)};
}

Accepted<std::size_t> count_tokens(const ServeContext& context, const HttpRequest& http) {
  const ServedModel& model = context.model;
  const auto request =
      TRY(parse_messages_request(http.body, model.default_sampling(), MessagesPurpose::kCount));
  const auto known = check_model(context, request.model);
  if (!known) return tl::unexpected(known.error());
  if (!model.chat_format) {
    return refuse({StatusCode::kInvalidArgument, "the model has no tokenizer, so it cannot chat"});
  }
  return TRY(model.chat_format->render(request.chat).map_error(messages_error)).ids.size();
}

HttpResponse count_response(const ServeContext& context, const HttpRequest& http) {
  const auto count = count_tokens(context, http);
  if (!count) return messages_error_format(count.error());
  return {.body = fmt::format(R"({{"input_tokens":{}}})", *count)};
}

}  // namespace

Accepted<PreparedAnswer> prepare_messages(const ServeContext& context, const HttpRequest& http) {
  const auto request = TRY(parse_messages_request(http.body, context.model.default_sampling(),
                                                  MessagesPurpose::kAnswer));
  auto generation = chat_generation(context, request.chat, request).map_error(respelt);
  if (!generation) return tl::unexpected(generation.error());
  generation->grammar_error = messages_error;
  const MessagesWriterOptions options{
      .head = {random_id("msg_"), context.served_name},
      .prompt_tokens = static_cast<std::int64_t>(generation->prompts[0].ids.size()),
      .stream = request.stream};
  return PreparedAnswer{.generation = *std::move(generation),
                        .make_writer = [options](std::shared_ptr<HttpExchange> exchange) {
                          return std::make_unique<MessagesWriter>(std::move(exchange), options);
                        }};
}

HttpHandler count_tokens_route(const ServeContext& context) {
  return [&context](HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
    context.workers.run(guarded_job(messages_error_format, exchange,
                                    [&context, request = std::move(request), exchange] {
                                      post_response(exchange, count_response(context, request));
                                    }));
  };
}

}  // namespace tandem
