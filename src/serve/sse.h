// Server-sent events of an answer.
#pragma once

#include <string_view>

#include "serve/http.h"

namespace tandem {

// Begins a stream; a comment bridges silence.
inline void start_events(HttpExchange& exchange) {
  exchange.start_stream({.content_type = "text/event-stream",
                         .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}},
                        ": ping\n\n");
}

// One event; `data` is one line.
inline void send_event(HttpExchange& exchange, std::string_view data) {
  exchange.write(std::string("data: ").append(data).append("\n\n"));
}

// The end that OpenAI's clients wait for.
inline void finish_events(HttpExchange& exchange) {
  send_event(exchange, "[DONE]");
  exchange.finish();
}

}  // namespace tandem
