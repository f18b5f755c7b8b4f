#include "serve/chat_answer.h"

#include <algorithm>
#include <utility>

#include "serve/openai_error.h"

namespace tandem {
namespace {

std::string finish_reason(const AnswerResult& result) {
  if (result.result.reason == FinishReason::kCancelled) return "abort";
  switch (result.end) {
    case AnswerEnd::kLength:
      return "length";
    case AnswerEnd::kToolCalls:
      return "tool_calls";
    case AnswerEnd::kStop:
      break;
  }
  return "stop";
}

bool is_reasoning(const OutputEvent& event) { return event.kind == OutputEvent::Kind::kReasoning; }

HttpResponse stream_head() {
  return {.content_type = "text/event-stream",
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
}

}  // namespace

ChatAnswer::ChatAnswer(std::shared_ptr<HttpExchange> exchange, ChatAnswerOptions options)
    : exchange_(std::move(exchange)),
      options_(std::move(options)),
      progress_(static_cast<std::size_t>(options_.choices)),
      open_choices_(options_.choices) {
  usage_.prompt_tokens = options_.prompt_tokens;
}

void ChatAnswer::begin(std::function<void()> cancel) {
  cancel_ = std::move(cancel);
  state_ = State::kAnswering;
  if (options_.stream) {
    exchange_->start_stream(stream_head(), ": ping\n\n");
    for (int i = 0; i < options_.choices; ++i) send(role_chunk(options_.head, i));
  }
  for (const auto& call : std::exchange(early_, {})) call();
}

void ChatAnswer::refuse(HttpResponse response) {
  state_ = State::kDone;
  early_.clear();
  exchange_->respond(std::move(response));
}

void ChatAnswer::on_events(int choice, std::vector<OutputEvent> events,
                           std::optional<SampledToken> token) {
  if (state_ == State::kWaiting) {
    early_.push_back([this, choice, events = std::move(events), token = std::move(token)] {
      on_events(choice, events, token);
    });
    return;
  }
  if (state_ == State::kDone) return;
  Progress& progress = progress_[static_cast<std::size_t>(choice)];
  if (token) ++progress.tokens;
  if (std::any_of(events.begin(), events.end(), is_reasoning)) {
    progress.reasoning_tokens = progress.tokens;
  }
  if (token && options_.logprobs != nullptr) {
    (options_.stream ? progress.unsent : progress.choice.tokens).push_back(*std::move(token));
  }
  if (options_.stream) return stream_events(choice, events);
  for (const OutputEvent& event : events) progress.choice.answer.add(event);
}

// Tokens whose text is held back, or that are markup, are accounted for by the chunk that follows.
void ChatAnswer::stream_events(int choice, const std::vector<OutputEvent>& events) {
  Progress& progress = progress_[static_cast<std::size_t>(choice)];
  for (const OutputEvent& event : events) {
    const std::string chunk = delta_chunk(options_.head, choice, event, unsent_logprobs(progress));
    if (chunk.empty()) continue;
    progress.unsent.clear();
    send(chunk);
  }
}

void ChatAnswer::on_end(int choice, const AnswerResult& result) {
  if (state_ == State::kWaiting) {
    early_.push_back([this, choice, result] { on_end(choice, result); });
    return;
  }
  if (state_ == State::kDone) return;
  if (result.result.reason == FinishReason::kError) return fail(result.result.status);
  Progress& progress = progress_[static_cast<std::size_t>(choice)];
  progress.choice.end = {finish_reason(result), result.stop_string, result.stop_id};
  const GenerateUsage& usage = result.result.usage;
  // The first to be submitted is the one that computed what the others found.
  if (choice == 0) usage_.cache = usage.cache;
  usage_.completion_tokens += usage.completion_tokens;
  usage_.reasoning_tokens += progress.reasoning_tokens;
  usage_.queue_ms = std::max(usage_.queue_ms, usage.queue_ms);
  usage_.prefill_ms = std::max(usage_.prefill_ms, usage.prefill_ms);
  usage_.decode_ms = std::max(usage_.decode_ms, usage.decode_ms);
  if (options_.stream) {
    send(end_chunk(options_.head, choice, progress.choice.end, unsent_logprobs(progress)));
  }
  if (--open_choices_ == 0) complete();
}

TokenLogprobs ChatAnswer::unsent_logprobs(const Progress& progress) const {
  if (progress.unsent.empty()) return {};
  return {options_.logprobs, progress.unsent};
}

void ChatAnswer::complete() {
  state_ = State::kDone;
  if (options_.stream) {
    if (options_.include_usage) send(usage_chunk(options_.head, usage_));
    send("[DONE]");
    return exchange_->finish();
  }
  std::vector<ChatChoice> choices;
  for (Progress& progress : progress_) choices.push_back(std::move(progress.choice));
  exchange_->respond({.body = completion_body(options_.head, choices, usage_, options_.logprobs)});
}

// Of several choices one that fails ends all: half an answer is none.
void ChatAnswer::fail(const Status& status) {
  state_ = State::kDone;
  cancel_();
  if (!options_.stream) return exchange_->respond(error_response(status));
  send(error_body(status));
  send("[DONE]");
  exchange_->finish();
}

void ChatAnswer::send(const std::string& chunk) { exchange_->write("data: " + chunk + "\n\n"); }

}  // namespace tandem
