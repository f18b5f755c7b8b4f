// A conversation in the terminal.
#pragma once

#include <atomic>
#include <string>

#include "engine/served_model.h"
#include "event_queue.h"
#include "run_options.h"

namespace tandem {

// Prints to stdout as the model answers; thinking only if asked for. Used by one thread; `model`
// and `options` outlive it.
class ChatSession {
 public:
  ChatSession(const ServedModel& model, const RunOptions& options, const SamplingParams& sampling);

  // One question, one answer.
  Result<void> answer_once(const std::string& prompt);

  // Reads questions from stdin until its end. Ctrl-C stops the answer, not the program.
  Result<void> converse();

 private:
  struct Event {
    std::vector<OutputEvent> output;
    std::optional<AnswerResult> end;
  };

  // Generates the answer to the messages so far, printing it, and appends it to them.
  Result<void> answer();
  void print(const OutputEvent& event);
  void print_json(const Answer& answer, const AnswerResult& result) const;

  const ServedModel& model_;
  const RunOptions& options_;
  SamplingParams sampling_;
  ChatRequest chat_;
  EventQueue<Event> events_;
  std::atomic<std::uint64_t> running_{0};  // id of the request being answered, 0 if none
  OutputEvent::Kind printed_ = OutputEvent::Kind::kContent;  // of the last text on the screen
};

}  // namespace tandem
