#include "serve/chat_writer.h"

#include <utility>

#include "serve/openai_error.h"
#include "serve/sse.h"

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

}  // namespace

ChatWriter::ChatWriter(std::shared_ptr<HttpExchange> exchange, ChatWriterOptions options)
    : exchange_(std::move(exchange)),
      options_(std::move(options)),
      usage_(options_.prompt_tokens, options_.choices),
      progress_(static_cast<std::size_t>(options_.choices)) {}

void ChatWriter::begin() {
  if (!options_.stream) return;
  start_events(*exchange_);
  for (int i = 0; i < options_.choices; ++i) send_event(*exchange_, role_chunk(options_.head, i));
}

void ChatWriter::on_events(int choice, const std::vector<OutputEvent>& events,
                           const SampledToken* token) {
  usage_.on_events(choice, events, token);
  Progress& progress = progress_[static_cast<std::size_t>(choice)];
  if (token != nullptr && options_.logprobs != nullptr) {
    (options_.stream ? progress.unsent : progress.choice.tokens).push_back(*token);
  }
  if (options_.stream) return stream_events(choice, events);
  for (const OutputEvent& event : events) progress.choice.answer.add(event);
}

// Tokens whose text is held back, or that are markup, are accounted for by the chunk that follows.
void ChatWriter::stream_events(int choice, const std::vector<OutputEvent>& events) {
  Progress& progress = progress_[static_cast<std::size_t>(choice)];
  for (const OutputEvent& event : events) {
    const std::string chunk = delta_chunk(options_.head, choice, event, unsent_logprobs(progress));
    if (chunk.empty()) continue;
    progress.unsent.clear();
    send_event(*exchange_, chunk);
  }
}

void ChatWriter::on_end(int choice, const AnswerResult& result) {
  usage_.on_end(choice, result);
  Progress& progress = progress_[static_cast<std::size_t>(choice)];
  progress.choice.end = {finish_reason(result), result.stop_string, result.stop_id};
  if (options_.stream) {
    send_event(*exchange_,
               end_chunk(options_.head, choice, progress.choice.end, unsent_logprobs(progress)));
  }
}

TokenLogprobs ChatWriter::unsent_logprobs(const Progress& progress) const {
  if (progress.unsent.empty()) return {};
  return {options_.logprobs, progress.unsent};
}

void ChatWriter::complete() {
  if (options_.stream) {
    if (options_.include_usage) {
      send_event(*exchange_, usage_chunk(options_.head, usage_.usage()));
    }
    return finish_events(*exchange_);
  }
  std::vector<ChatChoice> choices;
  for (Progress& progress : progress_) choices.push_back(std::move(progress.choice));
  exchange_->respond(
      {.body = completion_body(options_.head, choices, usage_.usage(), options_.logprobs)});
}

void ChatWriter::fail(const Status& status) {
  if (!options_.stream) return exchange_->respond(error_response(status));
  send_event(*exchange_, error_body(status));
  finish_events(*exchange_);
}

}  // namespace tandem
