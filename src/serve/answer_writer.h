// What one response format does with an answer; a protocol is a parser of requests and one of
// these (generation_route.h).
#pragma once

#include <span>
#include <vector>

#include "engine/answer_sink.h"

namespace tandem {

// Writes to the exchange that it was made with. Belongs to the network thread. Choices are numbered
// over all prompts of the request: prompt * choices per prompt + choice.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // The engine has taken every choice; comes first.
  virtual void begin() = 0;

  // `tokens` were sampled, and `events` can be shown; often there are none, as text is held back or
  // is markup. One token at a time, but more for a client that is behind (held_output.h); none for
  // what the end releases.
  virtual void on_events(int choice, const std::vector<OutputEvent>& events,
                         std::span<const SampledToken> tokens) = 0;

  // The choice has ended: stopped, full or cancelled. Nothing of it follows.
  virtual void on_end(int choice, const AnswerResult& result) = 0;

  // Every choice has ended; the answer is to be completed. The last call, or
  virtual void complete() = 0;
  // a choice has failed. The others were cancelled: half an answer is none.
  virtual void fail(const Status& status) = 0;
};

}  // namespace tandem
