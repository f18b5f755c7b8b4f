#include "serve/generate_request.h"

#include "serve/field_table.h"

namespace tandem {
namespace {

constexpr std::int64_t kDefaultTokens = 128;

using Value = const JsonValue&;
using Name = const std::string&;

struct Draft {
  NativeRequest request;
  int top_logprobs = 0;
};

constexpr FieldReader<Draft> kFields[] = {
    {"return_logprob",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.return_logprob = TRY(read_bool(v, f));
       return {};
     }},
    {"logprob_start_len",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.logprob_start = TRY(read_integer(v, f, -1));
       return {};
     }},
    {"top_logprobs_num",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.top_logprobs = static_cast<int>(TRY(read_integer(v, f, 0, kMaxTopLogprobs)));
       return {};
     }},
    {"return_text_in_logprobs",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.request.text_in_logprobs = TRY(read_bool(v, f));
       return {};
     }},
};

constexpr FieldReader<NativeRequest> kSampling[] = {
    {"max_new_tokens",
     [](Value v, Name f, NativeRequest& r) -> Result<void> {
       r.max_tokens = TRY(read_integer(v, f, 1));
       return {};
     }},
    {"min_new_tokens",
     [](Value v, Name f, NativeRequest& r) -> Result<void> {
       r.sampling.min_tokens = TRY(read_integer(v, f, 0, 1'000'000'000));
       return {};
     }},
};

const std::vector<std::string_view> kRefused = {
    "audio_data", "image_data", "input_embeds", "return_bytes", "token_ids_logprob", "video_data",
};

Result<void> read_sampling(const JsonValue& value, NativeRequest& request) {
  TRY(expect_object(value, "sampling_params"));
  TRY(read_generation_fields(value, request));
  TRY(read_fields(value, kSampling, request));
  return check_other_fields(value, native_sampling_names(), {}, request);
}

// Says where a field of "sampling_params" is.
Result<void> within_sampling(Result<void> read) {
  if (read) return read;
  Status status = read.error();
  if (status.field.empty() || status.field.starts_with("sampling_params")) return read;
  status.message = "sampling_params." + status.message;
  status.field = "sampling_params." + status.field;
  return fail(std::move(status));
}

Result<TextPrompts> read_input(const JsonValue& body, const Tokenizer& tokenizer) {
  const JsonValue* text = find_member(body, "text");
  const JsonValue* ids = find_member(body, "input_ids");
  const bool has_text = text != nullptr && !is_null(*text);
  const bool has_ids = ids != nullptr && !is_null(*ids);
  if (has_text && has_ids) return bad_field("input_ids", "cannot be combined with text");
  if (has_text) return read_text_prompts(*text, "text", tokenizer);
  if (has_ids) return read_text_prompts(*ids, "input_ids", tokenizer);
  return bad_field("text", "or input_ids is required");
}

}  // namespace

Result<NativeRequest> parse_native(std::string_view body, const SamplingParams& defaults,
                                   const Tokenizer& tokenizer) {
  const JsonValue object = TRY(parse_json_object(body));
  Draft draft;
  NativeRequest& request = draft.request;
  request.sampling = defaults;
  request.max_tokens = kDefaultTokens;
  request.input = TRY(read_input(object, tokenizer));
  TRY(read_generation_fields(object, request));
  const JsonValue* sampling = find_member(object, "sampling_params");
  if (sampling != nullptr && !is_null(*sampling)) {
    TRY(within_sampling(read_sampling(*sampling, request)));
  }
  TRY(read_fields(object, kFields, draft));
  TRY(check_other_fields(object, native_field_names(), kRefused, request));
  if (request.return_logprob) request.sampling.top_logprobs = draft.top_logprobs;
  return request;
}

const std::vector<std::string_view>& native_field_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all = {"input_ids", "text", "sampling_params"};
    add_names(kFields, all);
    return all;
  }();
  return names;
}

const std::vector<std::string_view>& native_sampling_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    add_names(kSampling, all);
    return all;
  }();
  return names;
}

}  // namespace tandem
