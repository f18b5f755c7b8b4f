#include "serve/block_writer.h"

#include <utility>

namespace tandem {

void BlockWriter::on_events(int choice, const std::vector<OutputEvent>& events,
                            std::span<const SampledToken> tokens) {
  usage_.on_events(choice, events, tokens);
  using Kind = AnswerBlock::Kind;
  for (const OutputEvent& event : events) {
    switch (event.kind) {
      case OutputEvent::Kind::kReasoning:
        add_text(Kind::kThinking, event.text);
        break;
      // A stream cannot take its thinking back, so the text repeats it.
      case OutputEvent::Kind::kContent:
      case OutputEvent::Kind::kReasoningWasContent:
        add_text(Kind::kText, event.text);
        break;
      case OutputEvent::Kind::kToolCallBegin:
        begin_block({.kind = Kind::kCall, .id = event.id, .name = event.name});
        break;
      case OutputEvent::Kind::kToolCallArguments:
        add_text(Kind::kCall, event.text);
        break;
      case OutputEvent::Kind::kToolCallEnd:
        end_block(true);
        break;
    }
  }
}

void BlockWriter::on_end(int choice, const AnswerResult& result) {
  usage_.on_end(choice, result);
  const bool is_call = is_open_ && blocks_.back().kind == AnswerBlock::Kind::kCall;
  end_block(!is_call && result.result.reason == FinishReason::kStop);
  result_ = result;
}

void BlockWriter::begin_block(AnswerBlock block) {
  // Text and thinking end where something else begins; a call says when it ends.
  end_block(!is_open_ || blocks_.back().kind != AnswerBlock::Kind::kCall);
  blocks_.push_back(std::move(block));
  is_open_ = true;
  on_block_begin(blocks_.size() - 1, blocks_.back());
}

void BlockWriter::end_block(bool whole) {
  if (!std::exchange(is_open_, false)) return;
  blocks_.back().whole = whole;
  on_block_end(blocks_.size() - 1, blocks_.back());
}

void BlockWriter::add_text(AnswerBlock::Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (!is_open_ || blocks_.back().kind != kind) begin_block({.kind = kind});
  blocks_.back().text += text;
  on_block_text(blocks_.size() - 1, blocks_.back(), text);
}

}  // namespace tandem
