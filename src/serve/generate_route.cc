#include "serve/generate_route.h"

#include <algorithm>
#include <utility>

#include "serve/build_generation.h"
#include "serve/generate_request.h"
#include "serve/generate_writer.h"
#include "serve/random_bits.h"

namespace tandem {
namespace {

// From where the engine has to score the prompts; 0 asks for the first token, too, which has none.
Result<std::int64_t> scored_from(const NativeRequest& request) {
  if (!request.return_logprob || request.logprob_start < 0) return -1;
  for (const TextPrompt& prompt : request.input.prompts) {
    const auto tokens = static_cast<std::int64_t>(prompt.ids.size());
    if (request.logprob_start <= tokens) continue;
    return bad_field("logprob_start_len", fmt::format("is {}; {} has {} tokens",
                                                      request.logprob_start, prompt.field, tokens));
  }
  return std::max<std::int64_t>(request.logprob_start, 1);
}

}  // namespace

Accepted<PreparedAnswer> prepare_native(const ServeContext& context, const HttpRequest& http) {
  const ServedModel& model = context.model;
  if (!model.tokenizer) {
    return refuse({StatusCode::kInvalidArgument, "the model has no tokenizer, so it has no text"});
  }
  auto request = TRY(parse_native(http.body, model.default_sampling(), *model.tokenizer));
  auto generation = generation_of(context, request);
  if (!generation) return tl::unexpected(generation.error());
  generation->prompt_logprobs_from = TRY(scored_from(request));
  GenerateWriterOptions options{
      .id = request.request_id.empty() ? fmt::format("{:016x}{:016x}", random_bits(), random_bits())
                                       : request.request_id,
      .choices = request.choices,
      .prompts = {},
      .is_list = request.input.is_list,
      .stream = request.stream,
      .logprobs = request.return_logprob,
      .top_logprobs = request.sampling.top_logprobs > 0,
      .logprob_start = request.logprob_start,
      .texts = request.text_in_logprobs ? model.tokenizer.get() : nullptr};
  const std::string& field = request.input.prompts.front().field;
  generation->prompts_field = field.substr(0, field.find('['));
  for (TextPrompt& prompt : request.input.prompts) {
    const auto added = add_plain_prompt(context, request, prompt.ids, prompt.field, *generation);
    if (!added) return tl::unexpected(added.error());
    options.prompts.push_back(std::move(prompt.ids));
  }
  return PreparedAnswer{
      .generation = *std::move(generation),
      .make_writer = [options = std::move(options)](std::shared_ptr<HttpExchange> exchange) {
        return std::make_unique<GenerateWriter>(std::move(exchange), options);
      }};
}

}  // namespace tandem
