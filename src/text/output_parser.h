// A model's output -> reasoning, content and tool calls, as the tokens come.
//
// Structure is recognised by token id alone: markers that the model spells out in ordinary
// characters are text. Deltas are whole characters, and their concatenation is the same however
// they are read.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace tandem {

struct OutputEvent {
  enum class Kind {
    kReasoning,          // `text` continues the thinking
    kContent,            // `text` continues the answer
    kToolCallBegin,      // call `call` with `id` and `name`; no other call is open
    kToolCallArguments,  // `text` continues the JSON text of the arguments of `call`
    kToolCallEnd,        // `call` is complete; a call without this event is void
    // The model skipped its thinking: all reasoning so far was the answer, repeated in `text`.
    kReasoningWasContent,
  };
  Kind kind = Kind::kContent;
  std::string text = {};
  int call = -1;  // 0, 1, … in order of appearance
  std::string id = {};
  std::string name = {};
  bool operator==(const OutputEvent&) const = default;
};

// Why an answer ended, as an API reports it.
enum class AnswerEnd { kStop, kLength, kToolCalls };

struct OutputParserOptions {
  OutputStart start = OutputStart::kResponse;  // of the prompt
  int tool_calls_before = 0;                   // of the prompt; ids of new calls count on from it
  // The tools that the request declares. Without any, calls are left out of the output.
  std::vector<std::string> tool_names = {};
  // K3, output that closes an answer but never its thinking: leave it reasoning, or report it as
  // the answer at the end (kReasoningWasContent).
  enum class UnclosedThinking { kReasoning, kContent };
  UnclosedThinking unclosed_thinking = UnclosedThinking::kReasoning;
};

// One answer. Single owner; the tokenizer must outlive it. Time is linear in the output.
class OutputParser {
 public:
  struct Finish {
    std::vector<OutputEvent> events;
    AnswerEnd end;
  };

  virtual ~OutputParser() = default;
  OutputParser(const OutputParser&) = delete;
  OutputParser& operator=(const OutputParser&) = delete;

  // Any id, stop ids included. After the end of the message everything is ignored.
  std::vector<OutputEvent> feed(TokenId id);
  // The last text, and how the answer ended: kToolCalls exactly if a call was completed, else
  // `end`. Call once; feed nothing after it.
  Finish finish(AnswerEnd end);

 protected:
  OutputParser(const Tokenizer& tokenizer, OutputParserOptions options)
      : tokenizer_(tokenizer), options_(std::move(options)) {}

  virtual void on_token(TokenId id) = 0;
  virtual void on_finish() = 0;

  // Events of the current feed() or finish(). Empty text is no event.
  void emit_text(OutputEvent::Kind kind, std::string text);
  void emit_begin(std::string id, std::string name);
  void emit_arguments(std::string text);
  void emit_end();
  // The number of the call that the next emit_begin() opens.
  int next_call() const { return next_call_; }

  const Tokenizer& tokenizer_;
  const OutputParserOptions options_;

 private:
  std::vector<OutputEvent> events_;
  int next_call_ = 0;
  int complete_calls_ = 0;
};

// `tokenizer` must outlive the parser.
std::unique_ptr<OutputParser> make_output_parser(ChatFamily family, const Tokenizer& tokenizer,
                                                 OutputParserOptions options);

// Of output without structure: every character is content, special names as `special` says.
std::unique_ptr<OutputParser> make_plain_output_parser(const Tokenizer& tokenizer,
                                                       SpecialText special);

// A whole answer, gathered from events. Calls that were never completed are left out.
class Answer {
 public:
  void add(const OutputEvent& event);

  std::string reasoning;
  std::string content;
  std::vector<ToolCall> tool_calls;

 private:
  ToolCall open_;
};

}  // namespace tandem
