// The record of an answer that SGLang's clients know as "meta_info". For .cc files.
#pragma once

#include <span>
#include <string>

#include "engine/answer_sink.h"
#include "serve/json_dump.h"
#include "text/tokenizer.h"

namespace tandem {

struct AnswerRecord {
  std::string id;
  const AnswerResult* result = nullptr;  // nullptr: the answer goes on
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
};

OrderedJson meta_info_json(const AnswerRecord& record);

// [[logprob, id, text]]; the text is null without a tokenizer.
OrderedJson token_logprobs_json(std::span<const SampledToken> tokens, const Tokenizer* text);
// The same of each token's best ones.
OrderedJson top_logprobs_json(std::span<const SampledToken> tokens, const Tokenizer* text);

// {type: stop | length | abort, …}
OrderedJson finish_reason_json(const AnswerResult& result);

}  // namespace tandem
