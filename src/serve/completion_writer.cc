#include "serve/completion_writer.h"

#include <numeric>
#include <utility>

#include "serve/openai_error.h"
#include "serve/sse.h"

namespace tandem {
namespace {

std::int64_t tokens_of(const std::vector<std::vector<TokenId>>& prompts) {
  return std::accumulate(prompts.begin(), prompts.end(), std::int64_t{0},
                         [](std::int64_t sum, const std::vector<TokenId>& prompt) {
                           return sum + static_cast<std::int64_t>(prompt.size());
                         });
}

}  // namespace

CompletionWriter::CompletionWriter(std::shared_ptr<HttpExchange> exchange,
                                   CompletionWriterOptions options)
    : exchange_(std::move(exchange)),
      options_(std::move(options)),
      usage_(tokens_of(options_.prompts), options_.choices,
             static_cast<int>(options_.prompts.size())),
      pieces_(options_.prompts.size() * static_cast<std::size_t>(options_.choices)) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) begin_choice(static_cast<int>(i));
}

void CompletionWriter::begin_choice(int choice) {
  CompletionPiece& piece = pieces_[static_cast<std::size_t>(choice)];
  piece.index = choice;
  piece.prompt = &options_.prompts[prompt_of(choice)];
  if (!options_.echoes.empty()) piece.text = options_.echoes[prompt_of(choice)];
}

void CompletionWriter::begin() {
  if (options_.stream) start_events(*exchange_);
}

// The prompt's tokens come with the first of the answer; the very first has no log-prob.
void CompletionWriter::add_prompt_tokens(CompletionPiece& piece, const SampledToken& first) {
  piece.begins_with_prompt = true;
  piece.tokens.push_back({.id = options_.prompts[prompt_of(piece.index)].front()});
  piece.tokens.insert(piece.tokens.end(), first.prompt->begin(), first.prompt->end());
}

void CompletionWriter::on_events(int choice, const std::vector<OutputEvent>& events,
                                 std::span<const SampledToken> tokens) {
  CompletionPiece& piece = pieces_[static_cast<std::size_t>(choice)];
  const bool shown = options_.extras.logprobs != nullptr || options_.extras.token_ids;
  if (!tokens.empty() && tokens.front().prompt != nullptr) {
    add_prompt_tokens(piece, tokens.front());
  }
  if (options_.score_only) return;
  usage_.on_events(choice, events, tokens);
  if (shown) piece.tokens.insert(piece.tokens.end(), tokens.begin(), tokens.end());
  for (const OutputEvent& event : events) piece.text += event.text;
  if (options_.stream && !piece.text.empty()) flush(piece);
}

// Sends what is there; the next piece goes on after it.
void CompletionWriter::flush(CompletionPiece& piece) {
  AnswerUsage usage = usage_.so_far();
  send_event(*exchange_, completion_text_body(options_.head, {piece}, options_.extras,
                                              options_.continuous_usage ? &usage : nullptr));
  std::int64_t offset = piece.text_offset;
  if (options_.extras.logprobs != nullptr) {
    for (const SampledToken& token : piece.tokens) {
      offset += count_characters(options_.extras.logprobs->token_bytes(token.id));
    }
  }
  piece = {.index = piece.index, .text_offset = offset};
}

void CompletionWriter::on_end(int choice, const AnswerResult& result) {
  AnswerResult own = result;
  if (options_.score_only) {
    own.result.usage.completion_tokens = 0;
    own.result.reason = FinishReason::kLength;
    own.end = AnswerEnd::kLength;
    own.stop_id = {};
  }
  usage_.on_end(choice, own);
  CompletionPiece& piece = pieces_[static_cast<std::size_t>(choice)];
  piece.end = ChatEnd{finish_reason(own), own.stop_string, own.stop_id, own};
  if (options_.stream) flush(piece);
}

void CompletionWriter::complete() {
  const AnswerUsage& usage = usage_.usage();
  if (!options_.stream) {
    return exchange_->respond(
        {.body = completion_text_body(options_.head, pieces_, options_.extras, &usage)});
  }
  if (options_.include_usage) {
    send_event(*exchange_, completion_text_body(options_.head, {}, options_.extras, &usage));
  }
  finish_events(*exchange_);
}

void CompletionWriter::fail(const Status& status) {
  if (!options_.stream) return exchange_->respond(error_response(status));
  send_event(*exchange_, error_body(status));
  finish_events(*exchange_);
}

}  // namespace tandem
