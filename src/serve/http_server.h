// Listens for HTTP/1.1 and hands requests to one handler. Knows no route and no model.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "serve/http.h"

namespace tandem {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: a free one
  HttpLimits limits = {};
  std::vector<HttpHeader> headers = {};  // of every response
  // The response to a request that never reaches the handler: malformed, too large, too slow.
  std::function<HttpResponse(int status, const std::string& message)> refusal;
};

// One network thread: the one in run(). post() and drain() may be called from any thread.
class HttpServer {
 public:
  // Listens; connections are served once run() is called.
  static Result<std::unique_ptr<HttpServer>> listen(HttpServerOptions options, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

  // Calls `action` on the network thread at the first of `signals`; after it they have their
  // default effect again, so a second one ends the program. Call before run().
  void on_first_signal(const std::vector<int>& signals, std::function<void()> action);

  // Serves until drained.
  void run();
  // Runs what was posted since run() returned.
  void run_posted();

  void post(std::function<void()> task);

  // run() returns when every request that is being answered has its answer, at the latest after
  // `limit`; connections that are open then are closed. New requests are still handed to the
  // handler, which should refuse them.
  void drain(std::chrono::milliseconds limit);

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
