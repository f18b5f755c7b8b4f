// The bodies that POST /v1/chat/completions answers with: one object, or the chunks of a stream.
// Pure functions; the caller adds "data: " and blank lines.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/answer_sink.h"
#include "sample/sampler.h"
#include "serve/answer_usage.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"

namespace tandem {

// What every body and chunk of one response repeats.
struct ChatHead {
  std::string id;            // "chatcmpl-…"
  std::int64_t created = 0;  // seconds of Unix time
  std::string model;
};

// The tokens that a body or chunk accounts for, and what of them was asked for.
struct ShownTokens {
  const Tokenizer* logprobs = nullptr;  // set: their log-probs
  bool ids = false;
  std::span<const SampledToken> tokens = {};
};

// How a choice ended.
struct ChatEnd {
  std::string finish_reason = {};
  std::string stop_string = {};         // that was found, or
  std::optional<TokenId> stop_id = {};  // that was sampled
  AnswerResult result = {};
};

struct ChatChoice {
  Answer answer;
  std::vector<SampledToken> tokens;  // empty unless log-probs or ids were asked for
  ChatEnd end = {};
};

// What a client wants beside the text.
struct ChatExtras {
  const Tokenizer* logprobs = nullptr;  // set: log-probs; outlives the answer
  bool token_ids = false;               // of prompt and answer
  bool prompt_ids_in_choice = false;    // of the prompt, where SGLang has them
  bool meta_info = false;
  std::shared_ptr<const std::vector<TokenId>> prompt_ids = nullptr;  // if any of these is asked for
};

// "stop", "length", "tool_calls", or "abort" if the server ended the answer.
std::string finish_reason(const AnswerResult& result);

std::string completion_body(const ChatHead& head, std::span<const ChatChoice> choices,
                            const AnswerUsage& usage, const ChatExtras& extras);

// The first chunk of a choice.
std::string role_chunk(const ChatHead& head, int choice, const ChatExtras& extras = {});
// Empty for an event that streams leave out (the end of a call).
std::string delta_chunk(const ChatHead& head, int choice, const OutputEvent& event,
                        const ShownTokens& shown);
// The last chunk of a choice.
std::string end_chunk(const ChatHead& head, int choice, const ChatEnd& end,
                      const ShownTokens& shown, const ChatExtras& extras = {});
// `chunk` with the tokens used so far.
std::string with_usage(std::string chunk, const AnswerUsage& usage);
// Of no choice, after the last.
std::string usage_chunk(const ChatHead& head, const AnswerUsage& usage);

}  // namespace tandem
