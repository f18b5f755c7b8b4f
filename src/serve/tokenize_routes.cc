#include "serve/tokenize_routes.h"

#include <limits>
#include <utility>

#include "serve/build_generation.h"
#include "serve/guarded_job.h"
#include "serve/json_dump.h"
#include "serve/json_fields.h"
#include "serve/openai_error.h"
#include "serve/openai_request.h"
#include "serve/text_prompts.h"
#include "text/utf8.h"

namespace tandem {
namespace {

using Json = OrderedJson;

Result<bool> flag(const JsonValue& body, const char* name, bool otherwise) {
  const JsonValue* value = find_present(body, name);
  if (value == nullptr) return otherwise;
  return read_bool(*value, name);
}

// The one of `names` that is there.
Result<const JsonValue*> one_of(const JsonValue& body, std::vector<const char*> names,
                                std::string& name) {
  const JsonValue* found = nullptr;
  for (const char* candidate : names) {
    const JsonValue* value = find_present(body, candidate);
    if (value == nullptr) continue;
    if (found != nullptr) return bad_field(candidate, "cannot be combined with " + name);
    found = value;
    name = candidate;
  }
  if (found == nullptr) return bad_field(names.front(), "is required");
  return found;
}

Json strings_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Json strings = Json::array();
  for (const TokenId id : ids) strings.push_back(repair_utf8(tokenizer.token_bytes(id)));
  return strings;
}

Result<TextPrompts> read_tokenize_input(const ServeContext& context, const JsonValue& body,
                                        std::string_view text) {
  const ServedModel& model = context.model;
  std::string name;
  const JsonValue* value = TRY(one_of(body, {"prompt", "text", "content", "messages"}, name));
  if (name != "messages") return read_text_prompts(*value, name, *model.tokenizer);
  const auto request = TRY(parse_chat_completion(text, model.default_sampling()));
  Prompt prompt = TRY(model.chat_format->render(request.chat));
  return TextPrompts{{{std::move(prompt.ids), name}}, false};
}

Accepted<std::string> tokenize(const ServeContext& context, std::string_view text) {
  const JsonValue body = TRY(parse_json_object(text));
  const Tokenizer& tokenizer = *context.model.tokenizer;
  const TextPrompts input = TRY(read_tokenize_input(context, body, text));
  const bool strings = TRY(flag(body, "return_token_strs", false));
  const bool pieces = TRY(flag(body, "with_pieces", false));
  Json tokens = Json::array();
  Json counts = Json::array();
  Json texts = Json::array();
  for (const TextPrompt& prompt : input.prompts) {
    tokens.push_back(prompt.ids);
    counts.push_back(prompt.ids.size());
    texts.push_back(strings_of(tokenizer, prompt.ids));
  }
  Json json;
  json["tokens"] = input.is_list ? tokens : tokens[0];
  json["count"] = input.is_list ? counts : counts[0];
  json["max_model_len"] = context.model.engine->model().spec().context_length;
  if (strings || pieces) json["token_strs"] = input.is_list ? texts : texts[0];
  return dump_json(json);
}

Accepted<std::string> detokenize(const ServeContext& context, std::string_view text) {
  const JsonValue body = TRY(parse_json_object(text));
  const Tokenizer& tokenizer = *context.model.tokenizer;
  const JsonValue* tokens = find_member(body, "tokens");
  if (tokens == nullptr) return bad_field("tokens", "is required");
  TRY(expect_array(*tokens, "tokens"));
  const bool skip = TRY(flag(body, "skip_special_tokens", true));
  const bool is_list =
      !tokens->items.empty() && tokens->items.front().kind == JsonValue::Kind::kArray;
  Json texts = Json::array();
  const auto add = [&](const JsonValue& list, const std::string& field) -> Result<void> {
    TRY(expect_array(list, field));
    std::vector<TokenId> ids;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const std::string at = fmt::format("{}[{}]", field, i);
      ids.push_back(static_cast<TokenId>(
          TRY(read_integer(list.items[i], at, 0, tokenizer.vocab_size() - 1))));
    }
    texts.push_back(tokenizer.decode(ids, skip ? SpecialText::kSkip : SpecialText::kKeep));
    return {};
  };
  if (is_list) {
    for (std::size_t i = 0; i < tokens->items.size(); ++i) {
      TRY(add(tokens->items[i], fmt::format("tokens[{}]", i)));
    }
  } else {
    TRY(add(*tokens, "tokens"));
  }
  const Json& answer = is_list ? texts : texts[0];
  return dump_json({{"text", answer}, {"prompt", answer}, {"content", answer}});
}

using Convert = Accepted<std::string> (*)(const ServeContext& context, std::string_view body);

HttpHandler text_route(const ServeContext& context, Convert convert) {
  return [&context, convert](HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
    context.workers.run(guarded_job(
        openai_error_format, exchange, [&context, convert, request = std::move(request), exchange] {
          HttpResponse response;
          if (!context.model.tokenizer) {
            response = error_response(400, "the model has no tokenizer, so it has no text");
          } else {
            auto body = convert(context, request.body);
            if (body) response.body = *std::move(body);
            if (!body) response = openai_error_format(body.error());
          }
          post_response(exchange, std::move(response));
        }));
  };
}

}  // namespace

HttpHandler tokenize_route(const ServeContext& context) { return text_route(context, tokenize); }
HttpHandler detokenize_route(const ServeContext& context) {
  return text_route(context, detokenize);
}

}  // namespace tandem
