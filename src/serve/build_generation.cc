#include "serve/build_generation.h"

#include <chrono>
#include <utility>

namespace tandem {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

std::int64_t vocab_size(const ServeContext& context) {
  return context.model.engine->model().spec().vocab_size;
}

Result<void> check_token_id(const ServeContext& context, TokenId id, const std::string& field) {
  if (id >= 0 && id < vocab_size(context)) return {};
  return bad_field(
      field, fmt::format("token {} is outside the vocabulary of {}", id, vocab_size(context)));
}

Result<void> check_unknown(const ServeContext& context, const GenerationFields& fields) {
  context.totals.add_unknown_fields(fields.unknown_fields);
  if (!context.strict_fields || fields.unknown_fields == 0) return {};
  const std::string name = fields.unknown_field.substr(0, 60);
  return bad_field(name, "is unknown, and this server refuses unknown fields");
}

Result<void> check_ends(const ServeContext& context, const GenerationFields& fields) {
  for (const TokenId id : fields.stop_token_ids) {
    TRY(check_token_id(context, id, "stop_token_ids"));
  }
  const std::int64_t least = fields.sampling.min_tokens;
  if (fields.max_tokens >= 0 && least > fields.max_tokens) {
    return bad_field("min_tokens",
                     fmt::format("{} is more than max_tokens, {}", least, fields.max_tokens));
  }
  return {};
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
  if (tokens == 0) return refuse({StatusCode::kInvalidArgument, field + ": is empty", field});
  const std::int64_t context_tokens = context.model.engine->model().spec().context_length;
  if (static_cast<std::int64_t>(tokens) < context_tokens) return {};
  return refuse({StatusCode::kInvalidArgument,
                 fmt::format("the prompt has {} tokens; the context holds {}, with at least one "
                             "for the answer",
                             tokens, context_tokens),
                 field},
                "context_length_exceeded");
}

Accepted<Generation> generation_of(const ServeContext& context, const GenerationFields& fields) {
  const auto known = check_model(context, fields.model);
  if (!known) return tl::unexpected(known.error());
  TRY(check_unknown(context, fields));
  TRY(check_ends(context, fields));
  Generation generation{.choices = fields.choices,
                        .sampling = fields.sampling,
                        .seed = fields.seed,
                        .max_tokens = fields.max_tokens,
                        .stop_ids = fields.stop_token_ids,
                        .cache_salt = fields.cache_salt,
                        .priority = fields.priority,
                        .request_id = fields.request_id,
                        .request_id_field = fields.request_id_field,
                        .stream = fields.stream};
  if (!fields.ignore_eos) {
    const std::vector<TokenId>& own = context.model.stop_ids;
    generation.stop_ids.insert(generation.stop_ids.end(), own.begin(), own.end());
  }
  if (fields.timeout_s) {
    generation.deadline = context.clock.now() + std::chrono::duration_cast<TimePoint::duration>(
                                                    Milliseconds(*fields.timeout_s * 1000));
  }
  return generation;
}

AnswerEnding chat_ending(const GenerationFields& fields) {
  if (fields.keep_stop) return {.stop_string = StopText::kKeep};
  return {.hidden_ids = fields.stop_token_ids};
}

Accepted<void> add_plain_prompt(const ServeContext& context, const GenerationFields& fields,
                                std::vector<TokenId> ids, const std::string& field,
                                Generation& generation) {
  const ServedModel& model = context.model;
  if (!model.tokenizer) {
    return refuse({StatusCode::kInvalidArgument, "the model has no tokenizer, so it has no text"});
  }
  for (const TokenId id : ids) TRY(check_token_id(context, id, field));
  const auto fits = check_prompt_length(context, ids.size(), field);
  if (!fits) return tl::unexpected(fits.error());
  AnswerEnding ending{.stop_string = StopText::kKeep};
  if (!fields.keep_stop) {
    ending = {.stop_string = StopText::kCut, .hidden_ids = generation.stop_ids};
  }
  const SpecialText special = fields.skip_special_tokens ? SpecialText::kSkip : SpecialText::kKeep;
  generation.prompts.push_back(
      {.ids = std::move(ids),
       .answer_stream =
           [&model, special, stop = fields.stop, ending] {
             return AnswerStream(make_plain_output_parser(*model.tokenizer, special), stop, ending);
           },
       .grammar = model.text_grammar(fields.format)});
  return {};
}

}  // namespace tandem
