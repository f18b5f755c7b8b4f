// Parsing and stop strings together: all that stands between sampled tokens and an API's deltas.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/output_parser.h"
#include "text/stop_strings.h"

namespace tandem {

// How an answer's text ends, beside its stop strings.
struct AnswerEnding {
  StopText stop_string = StopText::kCut;
  // Tokens that show no text: ordinary ones that the client named as stop ids.
  std::vector<TokenId> hidden_ids = {};
};

// One answer. Stop strings are looked for in the thinking and in the content, each by itself, not
// in tool calls. Single owner; the tokenizer must outlive it.
class AnswerStream {
 public:
  AnswerStream(std::unique_ptr<OutputParser> parser, const std::vector<std::string>& stops,
               AnswerEnding ending = {})
      : parser_(std::move(parser)),
        matcher_(stops, ending.stop_string),
        hidden_ids_(std::move(ending.hidden_ids)) {}

  // Nothing once stopped() or finish()ed.
  std::vector<OutputEvent> feed(TokenId id);
  // A stop string was found: the text ends there and generation can end.
  bool stopped() const { return matcher_.stopped(); }
  // That stop string, else empty.
  const std::string& stop_string() const { return matcher_.found(); }
  // As OutputParser::finish(). An answer that stopped ends as kStop or kToolCalls.
  OutputParser::Finish finish(AnswerEnd end);

 private:
  std::vector<OutputEvent> match(std::vector<OutputEvent> events);
  // Releases held-back text of the channel that ends.
  void release(std::vector<OutputEvent>* out);

  std::unique_ptr<OutputParser> parser_;
  StopStringMatcher matcher_;
  std::vector<TokenId> hidden_ids_;
  OutputEvent::Kind channel_ = OutputEvent::Kind::kContent;  // kReasoning or kContent
};

}  // namespace tandem
