#include "chat_session.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "run_report.h"

namespace tandem {
namespace {

constexpr const char* kChatHelp =
    "Type a message. /reset forgets the conversation, /exit or Ctrl-D leaves, Ctrl-C stops an "
    "answer.\n";

std::string finish_name(const AnswerResult& answer) {
  if (answer.result.reason == FinishReason::kCancelled) return "abort";
  switch (answer.end) {
    case AnswerEnd::kLength:
      return "length";
    case AnswerEnd::kToolCalls:
      return "tool_calls";
    case AnswerEnd::kStop:
      break;
  }
  return "stop";
}

int interrupt_pipe[2] = {-1, -1};  // a signal handler can reach nothing else

void on_sigint(int) {
  const char byte = 'i';
  [[maybe_unused]] const auto written = write(interrupt_pipe[1], &byte, 1);
}

// While it lives, Ctrl-C calls `on_interrupt` on a thread of its own instead of ending the program.
class InterruptWatcher {
 public:
  static Result<std::unique_ptr<InterruptWatcher>> start(std::function<void()> on_interrupt) {
    if (pipe(interrupt_pipe) != 0) return fail(StatusCode::kInternal, "no pipe for Ctrl-C");
    return std::unique_ptr<InterruptWatcher>(new InterruptWatcher(std::move(on_interrupt)));
  }
  ~InterruptWatcher() {
    sigaction(SIGINT, &before_, nullptr);
    close(interrupt_pipe[1]);  // the thread reads the end of the pipe
    thread_.join();
    close(interrupt_pipe[0]);
  }

 private:
  explicit InterruptWatcher(std::function<void()> on_interrupt) {
    thread_ = std::thread([on_interrupt = std::move(on_interrupt)] {
      char byte = 0;
      while (read(interrupt_pipe[0], &byte, 1) == 1) on_interrupt();
    });
    struct sigaction action = {};
    action.sa_handler = on_sigint;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, &before_);
  }

  struct sigaction before_ = {};
  std::thread thread_;
};

// "name {arguments}" as a line of its own.
void print_calls(const Answer& answer) {
  for (const ToolCall& call : answer.tool_calls)
    fmt::print("[calls {} {}]\n", call.name, call.arguments);
}

}  // namespace

ChatSession::ChatSession(const ServedModel& model, const RunOptions& options,
                         const SamplingParams& sampling)
    : model_(model), options_(options), sampling_(sampling) {
  if (options.effort == "unset") {
    chat_.effort = std::nullopt;
  } else {
    chat_.effort = options.effort;
  }
  if (!options.system.empty())
    chat_.messages.push_back({.role = "system", .content = options.system});
}

Result<void> ChatSession::answer_once(const std::string& prompt) {
  chat_.messages.push_back({.role = "user", .content = prompt});
  return answer();
}

Result<void> ChatSession::converse() {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) fmt::print("{}: {}", model_.name, kChatHelp);
  const auto watcher = TRY(InterruptWatcher::start([this] {
    const std::uint64_t id = running_.load();
    if (id != 0) model_.engine->cancel(RequestId{id});
    if (id == 0) fmt::print("\n(Ctrl-D leaves)\n> ");
    std::fflush(stdout);
  }));
  const auto system_messages = chat_.messages;
  std::string line;
  for (;;) {
    if (terminal) fmt::print("> ");
    std::fflush(stdout);
    if (!std::getline(std::cin, line) || line == "/exit") break;
    if (line == "/reset") {
      chat_.messages = system_messages;
    } else if (line == "/help") {
      fmt::print("{}", kChatHelp);
    } else if (!line.empty()) {
      const auto answered = answer_once(line);
      // A question that cannot be asked (too long, say) is dropped; the conversation goes on.
      if (!answered) {
        report_failure(answered.error());
        chat_.messages.pop_back();
      }
    }
  }
  if (terminal) fmt::print("\n");
  return {};
}

Result<void> ChatSession::answer() {
  const Prompt prompt = TRY(model_.chat_format->render(chat_));
  auto sink = std::make_unique<AnswerSink>(
      model_.answer_stream(prompt, chat_, {}),
      [this](std::vector<OutputEvent> output, const SampledToken*) {
        if (!output.empty()) events_.push({.output = std::move(output), .end = {}});
      },
      [this](const AnswerResult& result) { events_.push({.output = {}, .end = result}); });
  const RequestId id = TRY(model_.engine->submit({.prompt = prompt.ids,
                                                  .sampling = sampling_,
                                                  .max_tokens = options_.max_tokens,
                                                  .stop_ids = model_.stop_ids},
                                                 std::move(sink)));
  running_ = id.value;
  printed_ = OutputEvent::Kind::kContent;
  Answer answer;
  Event event;
  do {
    event = events_.pop();
    for (const OutputEvent& output : event.output) {
      answer.add(output);
      print(output);
    }
    std::fflush(stdout);
  } while (!event.end);
  running_ = 0;
  const AnswerResult& result = *event.end;
  fmt::print("\n");
  print_calls(answer);
  if (result.result.reason == FinishReason::kError) return fail(result.result.status);
  if (options_.show_stats) print_stats(result.result.usage);
  if (options_.json) print_json(answer, result);
  chat_.messages.push_back({.role = "assistant",
                            .content = answer.content,
                            .reasoning = answer.reasoning,
                            .tool_calls = answer.tool_calls});
  return {};
}

// Thinking is dimmed on a terminal and set apart by a line.
void ChatSession::print(const OutputEvent& event) {
  const bool thinking = event.kind == OutputEvent::Kind::kReasoning;
  if (!thinking && event.kind != OutputEvent::Kind::kContent) return;
  if (thinking && !options_.show_thinking) return;
  static const bool colour = isatty(STDOUT_FILENO) != 0;
  if (event.kind != printed_) {
    if (!thinking) fmt::print("{}\n\n", colour ? "\x1b[0m" : "");
    if (thinking && colour) fmt::print("\x1b[2m");
    printed_ = event.kind;
  }
  fmt::print("{}", event.text);
}

void ChatSession::print_json(const Answer& answer, const AnswerResult& result) const {
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const ToolCall& call : answer.tool_calls) {
    calls.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
  }
  nlohmann::ordered_json line;
  line["content"] = answer.content;
  line["reasoning"] = answer.reasoning;
  line["tool_calls"] = std::move(calls);
  line["finish_reason"] = finish_name(result);
  add_usage(line, result.result.usage);
  fmt::print("{}\n", line.dump());
}

}  // namespace tandem
