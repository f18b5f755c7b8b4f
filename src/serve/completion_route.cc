#include "serve/completion_route.h"

#include <ctime>
#include <utility>

#include "serve/build_generation.h"
#include "serve/completion_request.h"
#include "serve/completion_writer.h"
#include "serve/random_bits.h"

namespace tandem {
namespace {

CompletionWriterOptions writer_options(const ServeContext& context,
                                       const CompletionRequest& request) {
  const Tokenizer& tokenizer = *context.model.tokenizer;
  CompletionWriterOptions options{
      .head = {request.request_id.empty() ? random_id("cmpl-") : request.request_id,
               static_cast<std::int64_t>(std::time(nullptr)), context.served_name},
      .choices = request.choices,
      .prompts = {},
      .score_only = request.max_tokens == 0,
      .stream = request.stream,
      .include_usage = request.include_usage,
      .continuous_usage = request.continuous_usage,
      .extras = {.logprobs = request.sampling.top_logprobs >= 0 ? &tokenizer : nullptr,
                 .token_ids = request.return_token_ids}};
  for (const TextPrompt& prompt : request.input.prompts) {
    options.prompts.push_back(prompt.ids);
    if (request.echo) options.echoes.push_back(tokenizer.decode(prompt.ids));
  }
  return options;
}

}  // namespace

Accepted<PreparedAnswer> prepare_completion(const ServeContext& context, const HttpRequest& http) {
  const ServedModel& model = context.model;
  if (!model.tokenizer) {
    return refuse({StatusCode::kInvalidArgument, "the model has no tokenizer, so it has no text"});
  }
  auto request = TRY(parse_completion(http.body, model.default_sampling(), *model.tokenizer));
  auto generation = generation_of(context, request);
  if (!generation) return tl::unexpected(generation.error());
  for (const TextPrompt& prompt : request.input.prompts) {
    const auto added = add_plain_prompt(context, request, prompt.ids, prompt.field, *generation);
    if (!added) return tl::unexpected(added.error());
  }
  // The engine answers with a token at least; who wants none is not shown it.
  if (request.max_tokens == 0) generation->max_tokens = 1;
  if (request.echo && request.sampling.top_logprobs >= 0) generation->prompt_logprobs_from = 1;
  return PreparedAnswer{.generation = *std::move(generation),
                        .make_writer = [options = writer_options(context, request)](
                                           std::shared_ptr<HttpExchange> exchange) {
                          return std::make_unique<CompletionWriter>(std::move(exchange), options);
                        }};
}

}  // namespace tandem
