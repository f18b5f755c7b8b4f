#include "text/answer_stream.h"

#include <algorithm>
#include <utility>

namespace tandem {

std::vector<OutputEvent> AnswerStream::feed(TokenId id) {
  const bool hidden = std::find(hidden_ids_.begin(), hidden_ids_.end(), id) != hidden_ids_.end();
  if (stopped() || hidden) return {};
  return match(parser_->feed(id));
}

OutputParser::Finish AnswerStream::finish(AnswerEnd end) {
  OutputParser::Finish finish = parser_->finish(stopped() ? AnswerEnd::kStop : end);
  const bool was_stopped = stopped();
  finish.events = match(std::move(finish.events));
  if (!stopped()) release(&finish.events);
  if (stopped() && !was_stopped && finish.end == AnswerEnd::kLength) finish.end = AnswerEnd::kStop;
  return finish;
}

std::vector<OutputEvent> AnswerStream::match(std::vector<OutputEvent> events) {
  std::vector<OutputEvent> out;
  for (OutputEvent& event : events) {
    if (stopped()) break;
    const bool is_text =
        event.kind == OutputEvent::Kind::kReasoning || event.kind == OutputEvent::Kind::kContent;
    if (!is_text || event.kind != channel_) release(&out);
    if (is_text) {
      channel_ = event.kind;
      event.text = matcher_.feed(event.text);
      if (event.text.empty()) continue;
    }
    out.push_back(std::move(event));
  }
  return out;
}

void AnswerStream::release(std::vector<OutputEvent>* out) {
  std::string held = matcher_.flush();
  if (!held.empty()) out->push_back({channel_, std::move(held)});
}

}  // namespace tandem
