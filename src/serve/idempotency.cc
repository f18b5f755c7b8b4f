#include "serve/idempotency.h"

#include <utility>

#include "serve/openai_error.h"
#include "serve/wrapped_exchange.h"

namespace tandem {
class IdempotencyStore::Recording final : public WrappedExchange {
 public:
  Recording(std::shared_ptr<HttpExchange> inner, std::shared_ptr<IdempotencyStore> store,
            std::string key)
      : WrappedExchange(std::move(inner)), store_(std::move(store)), key_(std::move(key)) {}
  // Without an answer those who wait get one that lets them try again.
  ~Recording() override {
    if (!answered_) {
      store_->answer(key_, error_response(Status{StatusCode::kUnavailable, "try again"}));
    }
  }

  void respond(HttpResponse response) override {
    answered_ = true;
    store_->answer(key_, response);
    inner_->respond(std::move(response));
  }
  // The first client's leaving counts for a stream only.
  void on_gone(std::function<void()> action) override { on_gone_ = std::move(action); }
  void start_stream(HttpResponse head, std::string idle_text) override {
    answered_ = true;
    store_->answer(key_, error_response(Status{StatusCode::kInvalidArgument,
                                               "the answer is a stream, which is not kept"}));
    if (on_gone_) inner_->on_gone(std::move(on_gone_));
    inner_->start_stream(std::move(head), std::move(idle_text));
  }

 private:
  const std::shared_ptr<IdempotencyStore> store_;
  const std::string key_;
  bool answered_ = false;
  std::function<void()> on_gone_;
};

IdempotencyStore::Claim IdempotencyStore::claim(const std::string& key, std::string_view body,
                                                std::shared_ptr<HttpExchange>& exchange) {
  std::lock_guard lock(mutex_);
  const auto [entry, is_first] = entries_.try_emplace(key);
  Entry& found = entry->second;
  if (is_first) {
    found.body = body;
    exchange = std::make_shared<Recording>(exchange, shared_from_this(), key);
    return Claim::kFirst;
  }
  if (found.body != body) return Claim::kOther;
  if (found.answered) {
    post_response(exchange, found.response);
  } else {
    found.waiting.push_back(exchange);
  }
  return Claim::kRepeated;
}

// Failures are not kept: the next to ask may have better luck.
void IdempotencyStore::answer(const std::string& key, const HttpResponse& response) {
  std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return;
  Entry& found = entry->second;
  for (const auto& exchange : std::exchange(found.waiting, {})) post_response(exchange, response);
  if (response.status != 200) {
    entries_.erase(entry);
    return;
  }
  found.answered = true;
  found.response = response;
  bytes_ += found.body.size() + response.body.size();
  order_.push_back(key);
  shrink();
}

void IdempotencyStore::shrink() {
  while (order_.size() > limits_.answers || bytes_ > limits_.bytes) {
    const auto oldest = entries_.find(order_.front());
    bytes_ -= oldest->second.body.size() + oldest->second.response.body.size();
    entries_.erase(oldest);
    order_.pop_front();
  }
}

HttpHandler idempotent(std::shared_ptr<IdempotencyStore> store, HttpHandler inner) {
  return [store = std::move(store), inner = std::move(inner)](
             HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
    const std::string_view header = request.header("Idempotency-Key");
    if (header.empty()) return inner(std::move(request), std::move(exchange));
    std::string key(header);
    for (const std::string_view part :
         {std::string_view(request.path), request.header("Authorization"),
          request.header("x-api-key")}) {
      key.append("\n").append(part);  // no header has one
    }
    switch (store->claim(key, request.body, exchange)) {
      case IdempotencyStore::Claim::kFirst:
        return inner(std::move(request), std::move(exchange));
      case IdempotencyStore::Claim::kRepeated:
        return;
      case IdempotencyStore::Claim::kOther:
        return exchange->respond(
            error_response(Status{StatusCode::kInvalidArgument,
                                  "this key was used with another body", "Idempotency-Key"}));
    }
  };
}

}  // namespace tandem
