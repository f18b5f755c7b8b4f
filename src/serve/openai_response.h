// The bodies that POST /v1/chat/completions answers with: one object, or the chunks of a stream.
// Pure functions; the caller adds "data: " and blank lines.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
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

// The tokens that a body or chunk accounts for; nullptr if no log-probs were asked for.
struct TokenLogprobs {
  const Tokenizer* tokenizer = nullptr;
  std::span<const SampledToken> tokens;
};

// How a choice ended.
struct ChatEnd {
  std::string finish_reason = {};
  std::string stop_string = {};         // that was found, or
  std::optional<TokenId> stop_id = {};  // that was sampled
};

struct ChatChoice {
  Answer answer;
  std::vector<SampledToken> tokens;  // empty unless log-probs were asked for
  ChatEnd end = {};
};

std::string completion_body(const ChatHead& head, std::span<const ChatChoice> choices,
                            const AnswerUsage& usage, const Tokenizer* logprobs);

// The first chunk of a choice.
std::string role_chunk(const ChatHead& head, int choice);
// Empty for an event that streams leave out (the end of a call).
std::string delta_chunk(const ChatHead& head, int choice, const OutputEvent& event,
                        TokenLogprobs logprobs);
// The last chunk of a choice.
std::string end_chunk(const ChatHead& head, int choice, const ChatEnd& end, TokenLogprobs logprobs);
// Of no choice, after the last.
std::string usage_chunk(const ChatHead& head, const AnswerUsage& usage);

}  // namespace tandem
