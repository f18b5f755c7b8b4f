// What requests of every protocol say about how to generate, beside the prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sample/sampler.h"
#include "serve/json_fields.h"
#include "text/chat.h"

namespace tandem {

struct GenerationFields {
  std::string model = {};                  // empty: whatever is served
  SamplingParams sampling = {};            // without a seed
  std::optional<std::uint64_t> seed = {};  // nullopt: a random one
  std::int64_t max_tokens = -1;            // -1: what the context leaves
  std::vector<std::string> stop = {};
  std::vector<TokenId> stop_token_ids = {};  // beside the model's own; >= 0
  bool ignore_eos = false;                   // the model's own end nothing
  bool keep_stop = false;                    // the text ends with the stop string
  bool skip_special_tokens = true;           // without a chat only
  int choices = 1;
  ResponseFormat format = {};
  std::string cache_salt = {};  // prompts share cached prefixes with those of the same salt only
  int priority = 0;             // higher first
  std::optional<double> timeout_s = {};  // the answer ends then with what there is
  std::string request_id_field = {};     // "request_id" or "rid"
  std::string request_id = {};           // the client's name for the request; printable ASCII
  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // and the usage so far in every chunk
  // Beside the text: ids of prompt and answer (vLLM's shape), of the prompt, and a record of both
  // (SGLang's).
  bool return_token_ids = false;
  bool return_prompt_token_ids = false;
  bool return_meta_info = false;
  // Fields that nobody knows, and the first of them.
  int unknown_fields = 0;
  std::string unknown_field = {};
};

// Reads what all protocols share; what is left out or null keeps its value. Errors name the field.
// The tables in generation_fields.cc say what each field takes.
Result<void> read_generation_fields(const JsonValue& body, GenerationFields& fields);

// "stop" and "stop_token_ids", for protocols that spell the field otherwise.
Result<std::vector<std::string>> read_stop_strings(const JsonValue& value,
                                                   const std::string& field);

// A client's name for a request, from `field` or a header: up to 256 printable characters.
Result<std::string> read_request_id(std::string_view text, const std::string& field);

// Of a body: those of `refused` that ask for something are errors, as they would change the answer;
// what neither `known` nor `refused` nor the shared fields name is counted in `fields`.
Result<void> check_other_fields(const JsonValue& body, const std::vector<std::string_view>& known,
                                const std::vector<std::string_view>& refused,
                                GenerationFields& fields);

// The names of all shared fields, and of those that no protocol supports.
const std::vector<std::string_view>& shared_field_names();
const std::vector<std::string_view>& refused_field_names();
// Fields that are taken and change nothing here.
const std::vector<std::string_view>& ineffective_field_names();

}  // namespace tandem
