// Output of an answer whose client is behind: kept as text, and joined, so that what a slow client
// has not read costs a few bytes a token and no JSON; it catches up in few large events.
//
// Joining loses nothing: a piece holds either one event and all tokens up to it, or what cannot be
// joined, as it came. So counts of tokens by kind come out the same. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/sampled_token.h"
#include "text/output_parser.h"

namespace tandem {

class HeldOutput {
 public:
  // What an AnswerWriter is told at once.
  struct Piece {
    int choice = 0;
    std::vector<OutputEvent> events;
    std::vector<SampledToken> tokens;
  };

  explicit HeldOutput(int choices) : choices_(static_cast<std::size_t>(choices)) {}

  void add(int choice, std::vector<OutputEvent> events, std::optional<SampledToken> token);

  // Of memory, roughly.
  std::size_t bytes() const { return bytes_; }

  // All of it, in order within a choice; nothing is held afterwards.
  std::vector<Piece> take();

 private:
  struct Choice {
    std::vector<Piece> pieces;
    std::vector<SampledToken> silent;  // since the last event
  };

  std::vector<Choice> choices_;
  std::size_t bytes_ = 0;
};

}  // namespace tandem
