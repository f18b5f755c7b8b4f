// HTTP requests side by side on one thread, connections kept for the next. Internal to the folder.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loadgen/target.h"

namespace tandem::loadgen {

enum class CallEnd {
  kComplete,   // the whole response, as HTTP counts it
  kConnect,    // no connection
  kCut,        // the connection ended before the response did
  kMalformed,  // not HTTP
  kTimeout,
};

// Called in this order, on the thread that runs the io_context; `on_end` exactly once unless the
// call is cancelled, and nothing after either.
struct CallEvents {
  std::function<void(int status, std::string_view content_type)> on_head;
  std::function<void(std::string_view bytes)> on_body;  // any number of times
  std::function<void(CallEnd end, const std::string& detail)> on_end;
};

class HttpClient;

// One request. Kept alive by its own pending operations.
class HttpCall : public std::enable_shared_from_this<HttpCall> {
 public:
  HttpCall(HttpClient& client, std::string request, CallEvents events);

  void start(std::chrono::milliseconds timeout);
  // Drops the connection; no event follows.
  void cancel();

 private:
  using Parser = boost::beast::http::response_parser<boost::beast::http::string_body>;
  using Socket = boost::asio::ip::tcp::socket;

  void connect();
  void send();
  void read();
  void on_read(const boost::system::error_code& error, std::size_t bytes);
  void consume();
  void on_failure(CallEnd end, const std::string& detail);
  void finish(CallEnd end, const std::string& detail);
  void report_progress();
  void close();

  HttpClient& client_;
  const std::string request_;
  CallEvents events_;
  boost::asio::steady_timer deadline_;
  std::optional<Socket> socket_;
  bool reused_ = false;    // the connection had served another call
  bool received_ = false;  // a byte of the response is there
  bool head_told_ = false;
  bool done_ = false;
  std::string input_;  // received, not parsed
  std::optional<Parser> parser_;
  std::array<char, 16 << 10> chunk_;
};

// Outlives its calls; the io_context outlives it.
class HttpClient {
 public:
  // Looks the name up; blocks. kUnavailable if there is none.
  static Result<std::unique_ptr<HttpClient>> create(boost::asio::io_context& io, Target target,
                                                    std::string api_key);

  // `path` below the target's base path; an empty body sends a GET, else a POST of JSON.
  std::shared_ptr<HttpCall> call(const std::string& path, std::string_view body, CallEvents events,
                                 std::chrono::milliseconds timeout);

 private:
  friend class HttpCall;
  HttpClient(boost::asio::io_context& io, Target target, std::string api_key)
      : io_(io), target_(std::move(target)), api_key_(std::move(api_key)) {}

  boost::asio::io_context& io_;
  const Target target_;
  const std::string api_key_;
  std::vector<boost::asio::ip::tcp::endpoint> endpoints_;
  std::vector<boost::asio::ip::tcp::socket> idle_;
};

}  // namespace tandem::loadgen
