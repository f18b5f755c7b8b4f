// Server-sent events of an answer.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "serve/http.h"

namespace tandem {

// Begins a stream; `idle_text`, a comment or an event, bridges silence.
inline void start_events(HttpExchange& exchange, std::string idle_text = ": ping\n\n") {
  exchange.start_stream({.content_type = "text/event-stream",
                         .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}},
                        std::move(idle_text));
}

// One event; `data` is one line.
inline void send_event(HttpExchange& exchange, std::string_view data) {
  exchange.write(std::string("data: ").append(data).append("\n\n"));
}

// What is written for an event with a name.
inline std::string event_text(std::string_view name, std::string_view data) {
  return std::string("event: ").append(name).append("\ndata: ").append(data).append("\n\n");
}

// The end that OpenAI's chat clients wait for.
inline void finish_events(HttpExchange& exchange) {
  send_event(exchange, "[DONE]");
  exchange.finish();
}

}  // namespace tandem
