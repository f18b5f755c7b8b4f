#include "serve/generation_fields.h"

#include <algorithm>

#include "serve/answer_format.h"
#include "serve/field_table.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxChoices = 128;
constexpr std::size_t kMaxStops = 64;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxStopIds = 1024;
constexpr std::size_t kMaxSaltBytes = 1024;
constexpr std::size_t kMaxIdBytes = 256;
constexpr std::int64_t kMaxTokenId = std::numeric_limits<TokenId>::max();
constexpr std::int64_t kMaxMinTokens = 1'000'000'000;
constexpr std::int64_t kMinPriority = -1'000'000'000;
constexpr std::int64_t kMaxPriority = 1'000'000'000;
constexpr double kMaxTimeoutS = 86400;

// The fields as far as they are read, and what only fields together decide.
struct Draft {
  GenerationFields fields;
  bool has_stream_options = false;
  std::string salt;
  std::string extra_key;
};

using Value = const JsonValue&;
using Name = const std::string&;

Result<std::string> read_stop_string(Value value, Name field) {
  std::string stop = TRY(read_string(value, field));
  if (stop.empty()) return bad_field(field, "an empty string would stop every answer");
  if (stop.size() > kMaxStopBytes) {
    return bad_field(field,
                     fmt::format("expected at most {} bytes, got {}", kMaxStopBytes, stop.size()));
  }
  return stop;
}

Result<void> read_stop_ids(Value value, Name field, Draft& draft) {
  TRY(expect_array(value, field));
  if (value.items.size() > kMaxStopIds) {
    return bad_field(
        field, fmt::format("expected at most {} ids, got {}", kMaxStopIds, value.items.size()));
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    draft.fields.stop_token_ids.push_back(
        static_cast<TokenId>(TRY(read_integer(value.items[i], at, 0, kMaxTokenId))));
  }
  return {};
}

// {"id": bias}, or llama-server's [[id, bias], …]. Whether the ids are in the vocabulary is for the
// engine to say.
Result<void> read_logit_bias(Value value, Name field, Draft& draft) {
  const auto add = [&](Value id, Value bias, Name at) -> Result<void> {
    const auto token = static_cast<TokenId>(TRY(read_integer(id, at, 0, kMaxTokenId)));
    draft.fields.sampling.logit_bias.push_back({token, TRY(read_float(bias, at, {-100, 100}))});
    return {};
  };
  if (value.kind == JsonValue::Kind::kObject) {
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      JsonValue id;
      id.kind = JsonValue::Kind::kString;
      id.text = value.keys[i];
      TRY(add(id, value.items[i], field));
    }
    return {};
  }
  if (value.kind != JsonValue::Kind::kArray) {
    return bad_field(field, "an object of token ids and biases", value);
  }
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", field, i);
    const JsonValue& pair = value.items[i];
    if (pair.items.size() != 2) return bad_field(at, "a pair of token id and bias", pair);
    TRY(add(pair.items[0], pair.items[1], at));
  }
  return {};
}

Result<void> read_stream_options(Value value, Name field, Draft& draft) {
  TRY(expect_object(value, field));
  draft.has_stream_options = true;
  if (const JsonValue* usage = find_member(value, "include_usage"); usage && !is_null(*usage)) {
    draft.fields.include_usage = TRY(read_bool(*usage, field + ".include_usage"));
  }
  if (const JsonValue* all = find_member(value, "continuous_usage_stats"); all && !is_null(*all)) {
    draft.fields.continuous_usage = TRY(read_bool(*all, field + ".continuous_usage_stats"));
  }
  return {};
}

Result<std::string> read_salt(Value value, Name field) {
  std::string salt = TRY(read_string(value, field));
  if (salt.size() > kMaxSaltBytes) {
    return bad_field(field,
                     fmt::format("expected at most {} bytes, got {}", kMaxSaltBytes, salt.size()));
  }
  return salt;
}

Result<void> read_id(Value value, Name field, Draft& draft) {
  const std::string text = TRY(read_string(value, field));
  draft.fields.request_id = TRY(read_request_id(text, field));
  draft.fields.request_id_field = field;
  return {};
}

Result<void> read_repetition_penalty(Value value, Name field, Draft& draft) {
  draft.fields.sampling.repetition_penalty = TRY(read_float(value, field, {0, 2, true}));
  return {};
}

Result<void> read_seed(Value value, Name field, Draft& draft) {
  draft.fields.seed = static_cast<std::uint64_t>(TRY(read_integer(value, field)));
  return {};
}

Result<void> read_keep_stop(Value value, Name field, Draft& draft) {
  draft.fields.keep_stop = TRY(read_bool(value, field));
  return {};
}

template <bool GenerationFields::*kFlag>
Result<void> read_flag(Value value, Name field, Draft& draft) {
  draft.fields.*kFlag = TRY(read_bool(value, field));
  return {};
}

// In the order in which they are read.
constexpr FieldReader<Draft> kFields[] = {
    {"model",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.model = TRY(read_string(v, f));
       return {};
     }},
    {"temperature",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.sampling.temperature = TRY(read_float(v, f, {0, 2}));
       return {};
     }},
    {"top_p",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.sampling.top_p = TRY(read_float(v, f, {0, 1, true}));
       return {};
     }},
    {"top_k",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.sampling.top_k = TRY(read_integer(v, f, -1));
       return {};
     }},
    {"min_p",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.sampling.min_p = TRY(read_float(v, f, {0, 1}));
       return {};
     }},
    {"presence_penalty",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.sampling.presence_penalty = TRY(read_float(v, f, {-2, 2}));
       return {};
     }},
    {"frequency_penalty",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.sampling.frequency_penalty = TRY(read_float(v, f, {-2, 2}));
       return {};
     }},
    {"repeat_penalty", read_repetition_penalty},  // llama-server's name
    {"repetition_penalty", read_repetition_penalty},
    {"logit_bias", read_logit_bias},
    {"min_tokens",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.sampling.min_tokens = TRY(read_integer(v, f, 0, kMaxMinTokens));
       return {};
     }},
    {"sampling_seed", read_seed},  // SGLang's name
    {"seed", read_seed},
    {"stop",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.stop = TRY(read_stop_strings(v, f));
       return {};
     }},
    {"stop_token_ids", read_stop_ids},
    {"ignore_eos", read_flag<&GenerationFields::ignore_eos>},
    {"no_stop_trim", read_keep_stop},                // SGLang's name
    {"include_stop_str_in_output", read_keep_stop},  // vLLM's
    {"skip_special_tokens", read_flag<&GenerationFields::skip_special_tokens>},
    {"n",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.choices = static_cast<int>(TRY(read_integer(v, f, 1, kMaxChoices)));
       return {};
     }},
    {"cache_salt",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.salt = TRY(read_salt(v, f));
       return {};
     }},
    {"extra_key",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.extra_key = TRY(read_salt(v, f));
       return {};
     }},
    {"priority",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.priority = static_cast<int>(TRY(read_integer(v, f, kMinPriority, kMaxPriority)));
       return {};
     }},
    {"timeout",
     [](Value v, Name f, Draft& d) -> Result<void> {
       d.fields.timeout_s = TRY(read_float(v, f, {0, kMaxTimeoutS, true}));
       return {};
     }},
    {"request_id", read_id},
    {"rid", read_id},
    {"stream", read_flag<&GenerationFields::stream>},
    {"stream_options", read_stream_options},
    {"return_token_ids", read_flag<&GenerationFields::return_token_ids>},
    {"return_prompt_token_ids", read_flag<&GenerationFields::return_prompt_token_ids>},
    {"return_meta_info", read_flag<&GenerationFields::return_meta_info>},
};

// Read by read_answer_format.
constexpr std::string_view kFormatFields[] = {
    "ebnf",         "grammar",     "guided_choice", "guided_grammar",  "guided_json",
    "guided_regex", "json_schema", "regex",         "response_format", "structured_outputs",
};

// They would change the answer, so to ignore them would be a lie; null, false and empty ask for
// nothing.
constexpr std::string_view kRefused[] = {
    "allowed_token_ids",
    "bad_words",
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "custom_logit_processor",  // pickled code is never run
    "guided_decoding_backend",
    "guided_whitespace_pattern",
    "kv_transfer_params",
    "logits_processors",
    "logprob_token_ids",
    "lora",
    "lora_path",
    "prompt_logprobs",
    "return_hidden_states",
    "return_routed_experts",
    "return_tokens_as_token_ids",
    "session_params",
    "stop_regex",
    "structural_tag",
    "suffix",
    "truncate_prompt_tokens",
    "use_beam_search",
};

constexpr std::string_view kIneffective[] = {
    "add_generation_prompt",
    "add_special_tokens",
    "custom_labels",
    "custom_params",
    "data_parallel_rank",
    "disagg_prefill_dp_rank",
    "images_config",
    "log_metrics",
    "media_io_kwargs",
    "metadata",
    "mm_processor_kwargs",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_retention",
    "routed_dp_rank",
    "routed_experts_start_len",
    "safety_identifier",
    "service_tier",
    "session_id",
    "spaces_between_special_tokens",
    "store",
    "stream_interval",
    "stream_reasoning",
    "user",
    "verbosity",
    "web_search_options",
};

bool asks_for_nothing(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return true;
    case JsonValue::Kind::kBoolean:
      return value.text == "false";
    case JsonValue::Kind::kNumber:
      return value.text == "0";
    case JsonValue::Kind::kString:
      return value.text.empty();
    case JsonValue::Kind::kArray:
    case JsonValue::Kind::kObject:
      return value.items.empty();
  }
  return false;
}

bool among(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Result<std::vector<std::string>> read_stop_strings(const JsonValue& value,
                                                   const std::string& field) {
  if (value.kind == JsonValue::Kind::kString) {
    return std::vector{TRY(read_stop_string(value, field))};
  }
  if (value.kind != JsonValue::Kind::kArray) {
    return bad_field(field, "a string or a list of strings", value);
  }
  if (value.items.size() > kMaxStops) {
    return bad_field(
        field, fmt::format("expected at most {} strings, got {}", kMaxStops, value.items.size()));
  }
  std::vector<std::string> stops;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    stops.push_back(TRY(read_stop_string(value.items[i], fmt::format("{}[{}]", field, i))));
  }
  return stops;
}

Result<std::string> read_request_id(std::string_view text, const std::string& field) {
  const bool printable =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (text.empty() || text.size() > kMaxIdBytes || !printable) {
    return bad_field(field,
                     fmt::format("expected 1 to {} printable ASCII characters", kMaxIdBytes));
  }
  return std::string(text);
}

Result<void> read_generation_fields(const JsonValue& body, GenerationFields& fields) {
  Draft draft;
  draft.fields = std::move(fields);
  TRY(read_fields(body, kFields, draft));
  draft.fields.format = TRY(read_answer_format(body));
  if (draft.has_stream_options && !draft.fields.stream) {
    return bad_field("stream_options", "needs stream: true");
  }
  // Written so that no two pairs give the same.
  if (!draft.salt.empty() || !draft.extra_key.empty()) {
    draft.fields.cache_salt =
        fmt::format("{}:{}{}", draft.salt.size(), draft.salt, draft.extra_key);
  }
  fields = std::move(draft.fields);
  return {};
}

Result<void> check_other_fields(const JsonValue& body, const std::vector<std::string_view>& known,
                                const std::vector<std::string_view>& refused,
                                GenerationFields& fields) {
  for (std::size_t i = 0; i < body.keys.size(); ++i) {
    const std::string& name = body.keys[i];
    if (among(known, name)) continue;
    if (among(refused, name) || among(refused_field_names(), name)) {
      if (!asks_for_nothing(body.items[i])) return bad_field(name, "is not supported");
      continue;
    }
    if (among(shared_field_names(), name) || among(ineffective_field_names(), name)) continue;
    if (fields.unknown_fields++ == 0) fields.unknown_field = name;
  }
  return {};
}

const std::vector<std::string_view>& shared_field_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all(std::begin(kFormatFields), std::end(kFormatFields));
    add_names(kFields, all);
    return all;
  }();
  return names;
}

const std::vector<std::string_view>& refused_field_names() {
  static const std::vector<std::string_view> names(std::begin(kRefused), std::end(kRefused));
  return names;
}

const std::vector<std::string_view>& ineffective_field_names() {
  static const std::vector<std::string_view> names(std::begin(kIneffective),
                                                   std::end(kIneffective));
  return names;
}

}  // namespace tandem
