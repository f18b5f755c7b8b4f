// Answers kept for clients that ask the same twice: Idempotency-Key.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serve/http.h"

namespace tandem {

// The header's value, told apart by route and credentials, names one request and its answer.
//
// Thread-safe; shared by the exchanges that it makes. Holds so many answers and so many bytes at
// most; the oldest go first.
class IdempotencyStore : public std::enable_shared_from_this<IdempotencyStore> {
 public:
  struct Limits {
    std::size_t answers = 1024;
    std::size_t bytes = std::size_t{64} << 20;
  };
  explicit IdempotencyStore(Limits limits) : limits_(limits) {}

  enum class Claim {
    kFirst,     // answer `exchange`, which is another now: it keeps the answer
    kRepeated,  // nothing is left to do: `exchange` gets the first one's answer, now or later
    kOther,     // the key was used for another body
  };
  // A request with `key` (whoever may use it told apart by it, too) and `body`. The work for a
  // first one goes on when its client leaves: the client is expected to come back. An answer that
  // turns out to be a stream is not kept.
  Claim claim(const std::string& key, std::string_view body,
              std::shared_ptr<HttpExchange>& exchange);

 private:
  class Recording;

  struct Entry {
    std::string body;  // as it was sent: the same, not just alike
    bool answered = false;
    HttpResponse response = {};
    std::vector<std::shared_ptr<HttpExchange>> waiting = {};
  };

  void answer(const std::string& key, const HttpResponse& response);
  void shrink();

  const Limits limits_;
  std::mutex mutex_;  // guards what follows
  std::unordered_map<std::string, Entry> entries_;
  std::deque<std::string> order_;  // answered ones, oldest first
  std::size_t bytes_ = 0;          // of answered ones
};

// A handler (http.h) before `inner`: a repeat of a request with the same Idempotency-Key and body
// gets the same bytes, with another body 400.
HttpHandler idempotent(std::shared_ptr<IdempotencyStore> store, HttpHandler inner);

}  // namespace tandem
