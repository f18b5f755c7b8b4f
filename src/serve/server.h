// The OpenAI-compatible server over one loaded model.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/served_model.h"
#include "serve/api_keys.h"
#include "serve/http.h"

namespace tandem {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;               // 0: a free one
  std::string served_name = {};  // in requests and answers; empty: the model's own name
  HttpLimits limits = {};
  std::vector<ApiKey> api_keys = {};  // none: nobody needs one
  std::string admin_key = {};         // empty: none (access.h)
  bool strict_fields = false;         // requests with fields that nobody knows are refused
  // How long requests may still run once draining has begun.
  std::chrono::milliseconds drain_timeout{30'000};
};

// Clients that leave, or stop reading, lose their request within a step. start() and run() are
// called by one thread, drain() by any.
class Server {
 public:
  // Listens; connections are served once run() is called. `model` outlives the server.
  static Result<std::unique_ptr<Server>> start(const ServedModel& model,
                                               const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  std::string url() const;

  // SIGINT and SIGTERM drain; a second one has its default effect and ends the program. Call before
  // run().
  void drain_on_signals();

  // Serves until drained.
  void run();

  // Health turns 503 and new requests are refused; run() returns when the running ones are done, at
  // the latest after the drain timeout, which cuts them off.
  void drain();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
