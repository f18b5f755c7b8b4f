// A request inside the step loop: its tokens, its memory, its sampler.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "memory/sequence_memory.h"

namespace tandem {

// Owned by the loop thread after submission.
struct ActiveRequest {
  ActiveRequest(RequestId request_id, GenerateRequest generate,
                std::unique_ptr<TokenSink> token_sink, TimePoint now)
      : id(request_id),
        sink(std::move(token_sink)),
        tokens(std::move(generate.prompt)),
        prompt_tokens(static_cast<std::int64_t>(tokens.size())),
        stop_ids(std::move(generate.stop_ids)),
        max_tokens(generate.max_tokens),
        sampler(generate.sampling, tokens),
        submitted(now) {}

  RequestId id;
  std::unique_ptr<TokenSink> sink;
  std::vector<TokenId> tokens;  // prompt, then answer
  std::int64_t prompt_tokens;
  std::int64_t processed = 0;  // tokens that the memory holds
  std::vector<TokenId> stop_ids;
  std::int64_t max_tokens;  // resolved against the context at submission
  Sampler sampler;
  std::unique_ptr<SequenceMemory> memory;  // from admission on

  TimePoint submitted;
  TimePoint admitted;
  TimePoint first_token;
  TimePoint last_token;

  std::int64_t pending() const { return static_cast<std::int64_t>(tokens.size()) - processed; }
  std::int64_t completion_tokens() const {
    return static_cast<std::int64_t>(tokens.size()) - prompt_tokens;
  }
  bool decoding() const { return completion_tokens() > 0; }
};

}  // namespace tandem
