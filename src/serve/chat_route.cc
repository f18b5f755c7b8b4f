#include "serve/chat_route.h"

#include <ctime>
#include <utility>

#include "serve/chat_writer.h"
#include "serve/openai_request.h"
#include "serve/random_bits.h"

namespace tandem {
namespace {

// What the choices of one chat share.
struct ChatPrompt {
  ChatPrompt(Prompt rendered, ChatRequest request)
      : prompt(std::move(rendered)), chat(std::move(request)) {}
  Prompt prompt;
  ChatRequest chat;
};

}  // namespace

Accepted<Generation> chat_generation(const ServeContext& context, const ChatRequest& chat,
                                     const GenerationFields& fields) {
  const ServedModel& model = context.model;
  if (!model.chat_format) {
    return refuse({StatusCode::kInvalidArgument, "the model has no tokenizer, so it cannot chat"});
  }
  auto generation = generation_of(context, fields);
  if (!generation) return generation;
  Prompt prompt = TRY(model.chat_format->render(chat));
  const auto fits = check_prompt_length(context, prompt.ids.size(), "messages");
  if (!fits) return tl::unexpected(fits.error());
  GenerationPrompt& added = generation->prompts.emplace_back(
      GenerationPrompt{.ids = std::move(prompt.ids), .answer_stream = {}});
  const auto shared = std::make_shared<const ChatPrompt>(std::move(prompt), chat);
  added.answer_stream = [&model, shared, stop = fields.stop, ending = chat_ending(fields)] {
    return model.answer_stream(shared->prompt, shared->chat, stop, ending);
  };
  added.grammar = model.chat_grammar(shared->chat, shared->prompt);
  return generation;
}

Accepted<PreparedAnswer> prepare_chat_completion(const ServeContext& context,
                                                 const HttpRequest& http) {
  const ServedModel& model = context.model;
  const auto request = TRY(parse_chat_completion(http.body, model.default_sampling()));
  auto generation = chat_generation(context, request.chat, request);
  if (!generation) return tl::unexpected(generation.error());
  ChatWriterOptions options{
      .head = {request.request_id.empty() ? random_id("chatcmpl-") : request.request_id,
               static_cast<std::int64_t>(std::time(nullptr)), context.served_name},
      .choices = request.choices,
      .prompt_tokens = static_cast<std::int64_t>(generation->prompts[0].ids.size()),
      .stream = request.stream,
      .include_usage = request.include_usage,
      .continuous_usage = request.continuous_usage,
      .reasoning = request.reasoning,
      .extras = {
          .logprobs = request.sampling.top_logprobs >= 0 ? model.tokenizer.get() : nullptr,
          .token_ids = request.return_token_ids,
          .prompt_ids_in_choice = request.return_prompt_token_ids || request.return_meta_info,
          .meta_info = request.return_meta_info}};
  if (options.extras.token_ids || options.extras.prompt_ids_in_choice) {
    options.extras.prompt_ids =
        std::make_shared<const std::vector<TokenId>>(generation->prompts[0].ids);
  }
  return PreparedAnswer{.generation = *std::move(generation),
                        .make_writer = [options](std::shared_ptr<HttpExchange> exchange) {
                          return std::make_unique<ChatWriter>(std::move(exchange), options);
                        }};
}

}  // namespace tandem
