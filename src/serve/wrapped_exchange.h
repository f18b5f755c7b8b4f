// An exchange that changes some of what passes to the one it wraps.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/http.h"

namespace tandem {

class WrappedExchange : public HttpExchange {
 public:
  explicit WrappedExchange(std::shared_ptr<HttpExchange> inner) : inner_(std::move(inner)) {}

  void post(std::function<void()> task) override { inner_->post(std::move(task)); }
  void respond(HttpResponse response) override { inner_->respond(std::move(response)); }
  void start_stream(HttpResponse head, std::string idle_text) override {
    inner_->start_stream(std::move(head), std::move(idle_text));
  }
  void write(std::string_view text) override { inner_->write(text); }
  void finish() override { inner_->finish(); }
  void on_gone(std::function<void()> action) override { inner_->on_gone(std::move(action)); }
  bool is_behind() const override { return inner_->is_behind(); }
  void on_caught_up(std::function<void()> action) override {
    inner_->on_caught_up(std::move(action));
  }

 protected:
  const std::shared_ptr<HttpExchange> inner_;
};

// Adds a header to the response.
class HeaderExchange final : public WrappedExchange {
 public:
  HeaderExchange(std::shared_ptr<HttpExchange> inner, HttpHeader header)
      : WrappedExchange(std::move(inner)), header_(std::move(header)) {}

  void respond(HttpResponse response) override {
    response.headers.push_back(header_);
    inner_->respond(std::move(response));
  }
  void start_stream(HttpResponse head, std::string idle_text) override {
    head.headers.push_back(header_);
    inner_->start_stream(std::move(head), std::move(idle_text));
  }

 private:
  const HttpHeader header_;
};

}  // namespace tandem
