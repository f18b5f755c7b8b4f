// The bodies that POST /v1/messages answers with: one message, or the events of a stream. Pure
// functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "serve/block_writer.h"

namespace tandem {

struct MessageHead {
  std::string id;  // "msg_…"
  std::string model;
};

// One server-sent event; `data` is one line of JSON.
struct MessageEvent {
  const char* name;
  std::string data;
};

// Calls that were cut off are left out.
std::string message_body(const MessageHead& head, std::span<const AnswerBlock> blocks,
                         const AnswerResult& result, const AnswerUsage& usage);

MessageEvent message_start_event(const MessageHead& head, const AnswerUsage& usage);
MessageEvent ping_event();
MessageEvent block_start_event(std::size_t index, const AnswerBlock& block);
MessageEvent block_delta_event(std::size_t index, AnswerBlock::Kind kind, std::string_view piece);
// Ends a block of thinking, before its stop.
MessageEvent signature_event(std::size_t index);
MessageEvent block_stop_event(std::size_t index);
MessageEvent message_delta_event(const AnswerResult& result, const AnswerUsage& usage);
MessageEvent message_stop_event();

}  // namespace tandem
