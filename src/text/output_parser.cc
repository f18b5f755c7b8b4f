#include "text/output_parser.h"

#include <utility>

#include "text/output_parser_families.h"

namespace tandem {

std::vector<OutputEvent> OutputParser::feed(TokenId id) {
  on_token(id);
  return std::exchange(events_, {});
}

OutputParser::Finish OutputParser::finish(AnswerEnd end) {
  on_finish();
  return {std::exchange(events_, {}), complete_calls_ > 0 ? AnswerEnd::kToolCalls : end};
}

void OutputParser::emit_text(OutputEvent::Kind kind, std::string text) {
  if (!text.empty()) events_.push_back({kind, std::move(text)});
}

void OutputParser::emit_begin(std::string id, std::string name) {
  events_.push_back(
      {OutputEvent::Kind::kToolCallBegin, {}, next_call_++, std::move(id), std::move(name)});
}

void OutputParser::emit_arguments(std::string text) {
  if (text.empty()) return;
  events_.push_back({OutputEvent::Kind::kToolCallArguments, std::move(text), next_call_ - 1});
}

void OutputParser::emit_end() {
  events_.push_back({OutputEvent::Kind::kToolCallEnd, {}, next_call_ - 1});
  ++complete_calls_;
}

std::unique_ptr<OutputParser> make_output_parser(ChatFamily family, const Tokenizer& tokenizer,
                                                 OutputParserOptions options) {
  return family == ChatFamily::kK3 ? make_k3_output_parser(tokenizer, std::move(options))
                                   : make_kimi_linear_output_parser(tokenizer, std::move(options));
}

void Answer::add(const OutputEvent& event) {
  switch (event.kind) {
    case OutputEvent::Kind::kReasoning:
      reasoning += event.text;
      return;
    case OutputEvent::Kind::kContent:
      content += event.text;
      return;
    case OutputEvent::Kind::kToolCallBegin:
      open_ = {event.id, event.name, {}};
      return;
    case OutputEvent::Kind::kToolCallArguments:
      open_.arguments += event.text;
      return;
    case OutputEvent::Kind::kToolCallEnd:
      tool_calls.push_back(std::exchange(open_, {}));
      return;
    case OutputEvent::Kind::kReasoningWasContent:
      content = event.text + content;
      reasoning.clear();
      return;
  }
}

}  // namespace tandem
