// The body of POST /generate, SGLang's own route.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "serve/generation_fields.h"
#include "serve/text_prompts.h"

namespace tandem {

struct NativeRequest : GenerationFields {
  TextPrompts input = {};
  bool return_logprob = false;
  std::int64_t logprob_start = -1;  // of the prompt, too, from this position on; -1: not
  bool text_in_logprobs = false;
};

// max_tokens is 128 if the body says nothing; sampling is in "sampling_params".
Result<NativeRequest> parse_native(std::string_view body, const SamplingParams& defaults,
                                   const Tokenizer& tokenizer);

// The fields beside those that all protocols share, and those of "sampling_params".
const std::vector<std::string_view>& native_field_names();
const std::vector<std::string_view>& native_sampling_names();

}  // namespace tandem
