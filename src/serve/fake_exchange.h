// For tests: an exchange that records what it is answered with.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "serve/http.h"

namespace tandem {

// Tasks run at once.
class FakeExchange final : public HttpExchange {
 public:
  void post(std::function<void()> task) override { task(); }
  void respond(HttpResponse answer) override { response = std::move(answer); }
  void start_stream(HttpResponse head, std::string) override { stream_head = std::move(head); }
  void write(std::string_view text) override { stream += text; }
  void finish() override { finished = true; }
  void on_gone(std::function<void()> action) override { gone = std::move(action); }
  bool is_behind() const override { return behind; }
  void on_caught_up(std::function<void()> action) override { caught_up = std::move(action); }

  std::optional<HttpResponse> response;
  std::optional<HttpResponse> stream_head;
  std::string stream;
  bool finished = false;
  bool behind = false;
  std::function<void()> gone;
  std::function<void()> caught_up;
};

}  // namespace tandem
