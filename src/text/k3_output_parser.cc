// Kimi K3's output: channels opened and closed by markers, `<|open|> tag … <|sep|>`.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/k3_arguments.h"
#include "text/output_parser_families.h"
#include "text/utf8.h"
#include "text/xtml_marker.h"

namespace tandem {
namespace {

class K3OutputParser final : public OutputParser {
 public:
  K3OutputParser(const Tokenizer& tokenizer, OutputParserOptions options)
      : OutputParser(tokenizer, std::move(options)),
        open_(structural_id(tokenizer, "<|open|>")),
        close_(structural_id(tokenizer, "<|close|>")),
        sep_(structural_id(tokenizer, "<|sep|>")),
        stop_ids_(stop_ids(tokenizer)),
        state_(options_.start == OutputStart::kThinking ? State::kThinking : State::kResponse) {}

 private:
  // kGap: between channels, where text means nothing.
  enum class State { kThinking, kGap, kResponse, kTools, kDone };
  enum class Marker { kNone, kOpen, kClose };

  void on_token(TokenId id) override {
    if (state_ == State::kDone) return;
    if (id == open_ || id == close_) {
      // Whatever an unfinished marker held is dropped.
      end_text();
      marker_ = id == open_ ? Marker::kOpen : Marker::kClose;
      marker_text_.clear();
    } else if (id == sep_) {
      end_text();
      const Marker kind = std::exchange(marker_, Marker::kNone);
      if (kind == Marker::kNone) return;
      const XtmlMarker marker = parse_xtml_marker(marker_text_);
      kind == Marker::kOpen ? on_open(marker) : on_close(marker.tag);
    } else if (std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end()) {
      end_text();
      state_ = State::kDone;
    } else if (!tokenizer_.is_special(id)) {
      const std::string_view bytes = tokenizer_.token_bytes(id);
      if (marker_ == Marker::kNone) {
        on_text(bytes);
      } else {
        marker_text_ += bytes;
      }
    }
  }

  void on_finish() override {
    end_text();
    state_ = State::kDone;
    if (options_.unclosed_thinking == OutputParserOptions::UnclosedThinking::kContent &&
        skipped_thinking_) {
      emit_text(OutputEvent::Kind::kReasoningWasContent, std::move(reasoning_));
    }
  }

  void on_open(const XtmlMarker& marker) {
    // The model may forget to close: a channel opens from any state.
    if (marker.tag == "think") {
      saw_think_marker_ = true;
      enter(State::kThinking);
    } else if (marker.tag == "response") {
      enter(State::kResponse);
    } else if (marker.tag == "tools") {
      enter(State::kTools);
    } else if (marker.tag == "call") {
      enter(State::kTools);
      open_call(marker);
    } else if (marker.tag == "argument" && in_call_) {
      emit_arguments(arguments_.open_argument(marker.attribute("key"), marker.attribute("type")));
    } else if (marker.tag == "json" && in_call_) {
      emit_arguments(arguments_.open_json());
    }
  }

  void on_close(std::string_view tag) {
    if (tag == "think") {
      saw_think_marker_ = true;
      if (state_ == State::kThinking) enter(State::kGap);
    } else if (tag == "response" || tag == "message") {
      // An answer ends that has not begun: what looked like thinking was the answer.
      if (state_ == State::kThinking && !saw_think_marker_) skipped_thinking_ = true;
      if (tag == "message") {
        enter(State::kDone);
      } else if (state_ != State::kTools) {
        enter(State::kGap);
      }
    } else if (tag == "tools" && state_ == State::kTools) {
      enter(State::kGap);
    } else if (tag == "call" && in_call_) {
      emit_arguments(arguments_.close());
      emit_end();
      in_call_ = false;
    } else if ((tag == "argument" || tag == "json") && in_call_) {
      emit_arguments(arguments_.close_channel());
    }
  }

  // A call that is still open gets no end: void.
  void enter(State state) {
    in_call_ = false;
    state_ = state;
  }

  void open_call(const XtmlMarker& marker) {
    const std::string name = repair_utf8(marker.attribute("tool"));
    if (name.empty() || options_.tool_names.empty()) return;
    in_call_ = true;
    arguments_ = {};
    emit_begin(fmt::format("{}_{}", name, options_.tool_calls_before + next_call()), name);
  }

  void on_text(std::string_view bytes) {
    if (state_ == State::kThinking || state_ == State::kResponse) {
      show(text_.feed(bytes));
    } else if (in_call_) {
      emit_arguments(arguments_.text(bytes));
    }
  }

  // A marker or the end cuts a half character off.
  void end_text() { show(text_.flush()); }

  void show(std::string text) {
    if (state_ == State::kThinking) {
      if (options_.unclosed_thinking == OutputParserOptions::UnclosedThinking::kContent) {
        reasoning_ += text;
      }
      emit_text(OutputEvent::Kind::kReasoning, std::move(text));
    } else {
      emit_text(OutputEvent::Kind::kContent, std::move(text));
    }
  }

  const TokenId open_, close_, sep_;
  const std::vector<TokenId> stop_ids_;
  State state_;
  Utf8Stream text_;  // of the thinking and response channels
  Marker marker_ = Marker::kNone;
  std::string marker_text_;
  bool in_call_ = false;  // a call that is reported is open
  K3Arguments arguments_;
  bool saw_think_marker_ = false;
  bool skipped_thinking_ = false;
  std::string reasoning_;  // kept only for kReasoningWasContent
};

}  // namespace

std::unique_ptr<OutputParser> make_k3_output_parser(const Tokenizer& tokenizer,
                                                    OutputParserOptions options) {
  return std::make_unique<K3OutputParser>(tokenizer, std::move(options));
}

}  // namespace tandem
