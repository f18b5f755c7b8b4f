#include "serve/chat_writer.h"

#include <optional>
#include <utility>

#include "serve/openai_error.h"
#include "serve/sse.h"

namespace tandem {
namespace {

// The event as the client wants to see it, if at all.
std::optional<OutputEvent> placed(const OutputEvent& event, ReasoningText reasoning) {
  using Kind = OutputEvent::Kind;
  const bool thinks = event.kind == Kind::kReasoning;
  if (thinks && reasoning == ReasoningText::kLeftOut) return std::nullopt;
  if (reasoning != ReasoningText::kInContent) return event;
  // It stands in the content already.
  if (event.kind == Kind::kReasoningWasContent) return std::nullopt;
  OutputEvent content = event;
  if (thinks) content.kind = Kind::kContent;
  return content;
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
  for (int i = 0; i < options_.choices; ++i) send(role_chunk(options_.head, i, options_.extras));
}

void ChatWriter::on_events(int choice, const std::vector<OutputEvent>& events,
                           std::span<const SampledToken> tokens) {
  usage_.on_events(choice, events, tokens);
  Progress& progress = progress_[static_cast<std::size_t>(choice)];
  const bool shown = options_.extras.logprobs != nullptr || options_.extras.token_ids;
  if (shown) {
    auto& awaiting = options_.stream ? progress.unsent : progress.choice.tokens;
    awaiting.insert(awaiting.end(), tokens.begin(), tokens.end());
  }
  for (const OutputEvent& event : events) {
    const auto seen = placed(event, options_.reasoning);
    if (!seen) continue;
    if (options_.stream) {
      stream_event(choice, *seen);
    } else {
      progress.choice.answer.add(*seen);
    }
  }
}

// Tokens whose text is held back, or that are markup, are accounted for by the chunk that follows.
void ChatWriter::stream_event(int choice, const OutputEvent& event) {
  Progress& progress = progress_[static_cast<std::size_t>(choice)];
  std::string chunk = delta_chunk(options_.head, choice, event, unsent(progress));
  if (chunk.empty()) return;
  progress.unsent.clear();
  send(std::move(chunk));
}

void ChatWriter::on_end(int choice, const AnswerResult& result) {
  usage_.on_end(choice, result);
  Progress& progress = progress_[static_cast<std::size_t>(choice)];
  progress.choice.end = {finish_reason(result), result.stop_string, result.stop_id, result};
  if (!options_.stream) return;
  send(end_chunk(options_.head, choice, progress.choice.end, unsent(progress), options_.extras));
}

ShownTokens ChatWriter::unsent(const Progress& progress) const {
  return {options_.extras.logprobs, options_.extras.token_ids, progress.unsent};
}

void ChatWriter::send(std::string chunk) {
  if (options_.continuous_usage) chunk = with_usage(std::move(chunk), usage_.so_far());
  send_event(*exchange_, chunk);
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
      {.body = completion_body(options_.head, choices, usage_.usage(), options_.extras)});
}

void ChatWriter::fail(const Status& status) {
  if (!options_.stream) return exchange_->respond(error_response(status));
  send_event(*exchange_, error_body(status));
  finish_events(*exchange_);
}

}  // namespace tandem
