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

std::string completion_id() {
  return fmt::format("chatcmpl-{:016x}{:08x}", random_bits(), random_bits() >> 32);
}

}  // namespace

Accepted<void> check_model(const ServeContext& context, std::string_view name) {
  if (name.empty() || name == context.served_name) return {};
  return refuse(
      {StatusCode::kNotFound,
       fmt::format("no model '{}'; this server has '{}'", name.substr(0, 100), context.served_name),
       "model"},
      "model_not_found");
}

Accepted<void> check_prompt_length(const ServeContext& context, std::size_t tokens,
                                   const std::string& field) {
  const std::int64_t context_tokens = context.model.engine->model().spec().context_length;
  if (static_cast<std::int64_t>(tokens) < context_tokens) return {};
  return refuse({StatusCode::kInvalidArgument,
                 fmt::format("the prompt has {} tokens; the context holds {}, with at least one "
                             "for the answer",
                             tokens, context_tokens),
                 field},
                "context_length_exceeded");
}

Generation generation_of(const ServeContext& context, const GenerationFields& fields) {
  return {.choices = fields.choices,
          .sampling = fields.sampling,
          .seed = fields.seed,
          .max_tokens = fields.max_tokens,
          .stop_ids = context.model.stop_ids,
          .cache_salt = fields.cache_salt,
          .priority = fields.priority};
}

Accepted<Generation> chat_generation(const ServeContext& context, const ChatRequest& chat,
                                     const GenerationFields& fields) {
  const ServedModel& model = context.model;
  if (!model.chat_format) {
    return refuse({StatusCode::kInvalidArgument, "the model has no tokenizer, so it cannot chat"});
  }
  Prompt prompt = TRY(model.chat_format->render(chat));
  const auto fits = check_prompt_length(context, prompt.ids.size(), "messages");
  if (!fits) return tl::unexpected(fits.error());
  Generation generation = generation_of(context, fields);
  GenerationPrompt& added = generation.prompts.emplace_back(
      GenerationPrompt{.ids = std::move(prompt.ids), .answer_stream = {}});
  const auto shared = std::make_shared<const ChatPrompt>(std::move(prompt), chat);
  added.answer_stream = [&model, shared, stop = fields.stop] {
    return model.answer_stream(shared->prompt, shared->chat, stop);
  };
  added.constraint = [&model, shared] {
    return model.chat_constraint(shared->chat, shared->prompt);
  };
  return generation;
}

Accepted<PreparedAnswer> prepare_chat_completion(const ServeContext& context,
                                                 const HttpRequest& http) {
  const ServedModel& model = context.model;
  const auto request = TRY(parse_chat_completion(http.body, model.default_sampling()));
  const auto known = check_model(context, request.model);
  if (!known) return tl::unexpected(known.error());
  auto generation = chat_generation(context, request.chat, request);
  if (!generation) return tl::unexpected(generation.error());
  const ChatWriterOptions options{
      .head = {completion_id(), static_cast<std::int64_t>(std::time(nullptr)), context.served_name},
      .choices = request.choices,
      .prompt_tokens = static_cast<std::int64_t>(generation->prompts[0].ids.size()),
      .stream = request.stream,
      .include_usage = request.include_usage,
      .logprobs = request.sampling.top_logprobs >= 0 ? model.tokenizer.get() : nullptr};
  return PreparedAnswer{.generation = *std::move(generation),
                        .make_writer = [options](std::shared_ptr<HttpExchange> exchange) {
                          return std::make_unique<ChatWriter>(std::move(exchange), options);
                        }};
}

}  // namespace tandem
