// The output of Kimi Linear and Kimi K2: text, then a section of tool calls between marker tokens.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/output_parser_families.h"
#include "text/utf8.h"

namespace tandem {
namespace {

constexpr std::string_view kJsonSpace = " \t\r\n";

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kJsonSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kJsonSpace) - first + 1);
}

// NAME of `functions.NAME:INDEX` or `NAME:INDEX`; empty if the id has no such form.
std::string_view name_in_id(std::string_view id) {
  const std::size_t colon = id.rfind(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view index = id.substr(colon + 1);
  if (index.empty() || index.find_first_not_of("0123456789") != std::string_view::npos) return {};
  std::string_view name = id.substr(0, colon);
  constexpr std::string_view kPrefix = "functions.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return name;
}

class KimiLinearOutputParser final : public OutputParser {
 public:
  KimiLinearOutputParser(const Tokenizer& tokenizer, OutputParserOptions options)
      : OutputParser(tokenizer, std::move(options)),
        think_(structural_id(tokenizer, "<think>")),
        end_think_(structural_id(tokenizer, "</think>")),
        section_begin_(structural_id(tokenizer, "<|tool_calls_section_begin|>")),
        section_end_(structural_id(tokenizer, "<|tool_calls_section_end|>")),
        call_begin_(structural_id(tokenizer, "<|tool_call_begin|>")),
        arguments_begin_(structural_id(tokenizer, "<|tool_call_argument_begin|>")),
        call_end_(structural_id(tokenizer, "<|tool_call_end|>")),
        stop_ids_(stop_ids(tokenizer)),
        state_(options_.start == OutputStart::kThinking ? State::kThinking : State::kContent) {}

 private:
  // kSection: between calls, where text means nothing.
  enum class State { kThinking, kContent, kSection, kCallId, kArguments, kDone };

  void on_token(TokenId id) override {
    if (state_ == State::kDone || id < 0) return;
    const bool is_first = std::exchange(is_first_, false);
    if (id == think_ && (is_first || state_ == State::kThinking)) {
      enter(State::kThinking);
    } else if (id == end_think_) {
      if (state_ == State::kThinking) enter(State::kContent);
    } else if (id == section_begin_) {
      in_section_ = true;
      enter(State::kSection);
    } else if (id == section_end_) {
      in_section_ = false;
      enter(State::kContent);
    } else if (id == call_begin_) {
      enter(State::kCallId);
    } else if (id == arguments_begin_) {
      if (state_ == State::kCallId) open_call();
    } else if (id == call_end_) {
      close_call();
    } else if (std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end()) {
      enter(State::kDone);
    } else if (!tokenizer_.is_special(id)) {
      on_text(tokenizer_.token_bytes(id));
    }
  }

  void on_finish() override { enter(State::kDone); }

  // A half character is cut off where a state ends; a call that is still open is void, and what
  // was sent of it stays a true beginning.
  void enter(State state) {
    const std::string cut = text_.flush();
    if (state_ != State::kArguments) show(cut);
    state_ = state;
    call_id_.clear();
    reported_ = false;
  }

  void on_text(std::string_view bytes) {
    if (state_ == State::kCallId) {
      call_id_ += bytes;
    } else if (state_ != State::kSection) {
      show(text_.feed(bytes));
    }
  }

  void show(std::string text) {
    if (state_ == State::kThinking) emit_text(OutputEvent::Kind::kReasoning, std::move(text));
    if (state_ == State::kContent) emit_text(OutputEvent::Kind::kContent, std::move(text));
    if (state_ == State::kArguments && reported_) show_arguments(text);
  }

  // Verbatim but for whitespace around the whole.
  void show_arguments(std::string_view text) {
    if (!arguments_begun_) {
      text.remove_prefix(std::min(text.find_first_not_of(kJsonSpace), text.size()));
      arguments_begun_ = !text.empty();
    }
    const std::size_t end = text.find_last_not_of(kJsonSpace) + 1;  // 0 if only whitespace
    if (end > 0) emit_arguments(std::exchange(held_space_, {}) + std::string(text.substr(0, end)));
    held_space_ += text.substr(end);
  }

  void open_call() {
    const std::string id(trim(repair_utf8(call_id_)));
    std::string name(name_in_id(id));
    // An id without a name can only mean the one tool that there is.
    if (name.empty() && options_.tool_names.size() == 1) name = options_.tool_names.front();
    enter(State::kArguments);
    arguments_begun_ = false;
    held_space_.clear();
    reported_ = !name.empty() && !options_.tool_names.empty();
    if (reported_) emit_begin(id, name);
  }

  void close_call() {
    if (state_ != State::kArguments && state_ != State::kCallId) return;
    show(text_.flush());
    if (reported_) {
      if (!arguments_begun_) emit_arguments("{}");
      emit_end();
    }
    enter(in_section_ ? State::kSection : State::kContent);
  }

  const TokenId think_, end_think_, section_begin_, section_end_, call_begin_, arguments_begin_,
      call_end_;
  const std::vector<TokenId> stop_ids_;
  State state_;
  bool is_first_ = true;
  bool in_section_ = false;
  Utf8Stream text_;
  std::string call_id_;           // bytes
  bool reported_ = false;         // the open call was begun in the output
  bool arguments_begun_ = false;  // past leading whitespace
  std::string held_space_;        // whitespace that may prove to be trailing
};

}  // namespace

std::unique_ptr<OutputParser> make_kimi_linear_output_parser(const Tokenizer& tokenizer,
                                                             OutputParserOptions options) {
  return std::make_unique<KimiLinearOutputParser>(tokenizer, std::move(options));
}

}  // namespace tandem
