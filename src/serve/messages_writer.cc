#include "serve/messages_writer.h"

#include "serve/messages_error.h"
#include "serve/sse.h"

namespace tandem {

void MessagesWriter::begin() {
  if (!options_.stream) return;
  const MessageEvent ping = ping_event();
  start_events(*exchange_, event_text(ping.name, ping.data));
  // What the cache held of the prompt is known at the end only.
  send(message_start_event(options_.head, usage()));
  send(ping);
}

void MessagesWriter::on_block_begin(std::size_t index, const AnswerBlock& block) {
  if (!options_.stream) return;
  send(block_start_event(index, block));
}

void MessagesWriter::on_block_text(std::size_t index, const AnswerBlock& block,
                                   std::string_view piece) {
  if (!options_.stream) return;
  send(block_delta_event(index, block.kind, piece));
}

void MessagesWriter::on_block_end(std::size_t index, const AnswerBlock& block) {
  if (!options_.stream) return;
  if (block.kind == AnswerBlock::Kind::kThinking) send(signature_event(index));
  send(block_stop_event(index));
}

void MessagesWriter::complete() {
  if (result().result.reason == FinishReason::kCancelled) {
    return fail({StatusCode::kUnavailable, "the server ended this answer before it was complete"});
  }
  if (!options_.stream) {
    return exchange_->respond({.body = message_body(options_.head, blocks(), result(), usage())});
  }
  send(message_delta_event(result(), usage()));
  send(message_stop_event());
  exchange_->finish();
}

void MessagesWriter::fail(const Status& status) {
  if (!options_.stream) return exchange_->respond(messages_error_format(status));
  send({"error", messages_error_body(status)});
  exchange_->finish();
}

void MessagesWriter::send(const MessageEvent& event) {
  exchange_->write(event_text(event.name, event.data));
}

}  // namespace tandem
