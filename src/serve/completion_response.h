// The bodies that POST /v1/completions answers with. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/answer_usage.h"
#include "serve/openai_response.h"

namespace tandem {

// A piece of a choice: all of it, or what one chunk of a stream carries.
struct CompletionPiece {
  int index = 0;
  std::string text = {};
  std::vector<SampledToken> tokens = {};         // shown with it, if asked for
  std::int64_t text_offset = 0;                  // characters of the choice before its first token
  bool begins_with_prompt = false;               // the first token has no log-prob
  std::optional<ChatEnd> end = {};               // the last piece of the choice
  const std::vector<TokenId>* prompt = nullptr;  // the first piece: ids, if asked for
};

struct CompletionExtras {
  const Tokenizer* logprobs = nullptr;  // set: log-probs; outlives the answer
  bool token_ids = false;
};

// A whole body, or a chunk: the shape is the same.
std::string completion_text_body(const ChatHead& head, const std::vector<CompletionPiece>& pieces,
                                 const CompletionExtras& extras, const AnswerUsage* usage);

// Characters of the text that `bytes` are part of: code points that begin there.
std::int64_t count_characters(std::string_view bytes);

}  // namespace tandem
