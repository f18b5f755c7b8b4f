#include "serve/completion_request.h"

#include "serve/field_table.h"

namespace tandem {
namespace {

constexpr std::int64_t kDefaultTokens = 16;

using Value = const JsonValue&;
using Name = const std::string&;

// In the order in which they are read, after those that all protocols share; "prompt" is apart.
constexpr FieldReader<CompletionRequest> kFields[] = {
    {"max_tokens",
     [](Value v, Name f, CompletionRequest& r) -> Result<void> {
       r.max_tokens = TRY(read_integer(v, f, 0));
       return {};
     }},
    {"logprobs",
     [](Value v, Name f, CompletionRequest& r) -> Result<void> {
       // vLLM's clients send false for none.
       if (v.kind == JsonValue::Kind::kBoolean && v.text == "false") return {};
       r.sampling.top_logprobs = static_cast<int>(TRY(read_integer(v, f, 0, kMaxTopLogprobs)));
       return {};
     }},
    {"echo",
     [](Value v, Name f, CompletionRequest& r) -> Result<void> {
       r.echo = TRY(read_bool(v, f));
       return {};
     }},
    {"best_of",
     [](Value v, Name f, CompletionRequest& r) -> Result<void> {
       if (TRY(read_integer(v, f, 1)) == r.choices) return {};
       return bad_field(f, "more candidates than n are not supported");
     }},
};

const std::vector<std::string_view> kRefused = {"messages", "tools", "top_logprobs"};

}  // namespace

Result<CompletionRequest> parse_completion(std::string_view body, const SamplingParams& defaults,
                                           const Tokenizer& tokenizer) {
  const JsonValue object = TRY(parse_json_object(body));
  CompletionRequest request;
  request.sampling = defaults;
  request.max_tokens = kDefaultTokens;
  const JsonValue* prompt = find_member(object, "prompt");
  if (prompt == nullptr || is_null(*prompt)) return bad_field("prompt", "is required");
  request.input = TRY(read_text_prompts(*prompt, "prompt", tokenizer));
  TRY(read_generation_fields(object, request));
  TRY(read_fields(object, kFields, request));
  TRY(check_other_fields(object, completion_field_names(), kRefused, request));
  if (request.max_tokens == 0 && !request.echo) {
    return bad_field("max_tokens", "expected at least 1; 0 needs echo: true");
  }
  return request;
}

const std::vector<std::string_view>& completion_field_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all = {"prompt"};
    add_names(kFields, all);
    return all;
  }();
  return names;
}

}  // namespace tandem
