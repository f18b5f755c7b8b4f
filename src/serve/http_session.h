// One connection. Internal to http_server.cc; everything here belongs to the network thread.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "serve/http_server.h"
#include "serve/output_queue.h"

namespace tandem {

class HttpSession;

// What the connections of a server share. Outlives them.
struct HttpSessionContext {
  boost::asio::io_context& io;
  const HttpServerOptions& options;
  const HttpHandler& handler;
  ByteBudget& bodies;
  std::unordered_set<HttpSession*> open = {};
  std::int64_t answering = 0;            // connections that owe an answer
  bool draining = false;                 // an answer is its connection's last
  std::function<void()> on_change = {};  // `open` or `answering` shrank
};

// Calls its owner back once, unless it is set anew or cleared. Either is done for every piece of a
// stream, so both leave the timer beneath as it is: when that expires it looks what is due.
class Deadline {
 public:
  using Action = void (HttpSession::*)();

  explicit Deadline(boost::asio::io_context& io) : timer_(io) {}

  void set(std::chrono::milliseconds after, const std::shared_ptr<HttpSession>& owner,
           Action action);
  // The owner may be kept alive for as long as the deadline was.
  void clear() { due_.reset(); }
  // Lets go of the owner, too.
  void cancel();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  void wait(std::shared_ptr<HttpSession> owner, TimePoint until);

  boost::asio::steady_timer timer_;
  std::optional<TimePoint> due_;
  Action action_ = nullptr;
  bool waiting_ = false;
  std::uint64_t round_ = 0;  // an expiry of an earlier one that is queued already is void
};

// Reads all the time: a request, or, while one is being answered, whatever tells that the client
// has left. A client that closes its sending side counts as gone. Requests sent ahead of an answer
// are kept, up to a bound.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(boost::asio::ip::tcp::socket socket, HttpSessionContext& context);

  void start();
  // Drops the connection; what is being answered is told.
  void close();

 private:
  class Exchange;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class State { kReading, kAnswering, kLingering, kClosed };

  void read();
  void on_read(const boost::system::error_code& error, std::size_t bytes);
  void await_request();
  void consume();
  bool feed_parser();
  void on_header();
  void dispatch();
  void on_read_timeout();
  void refuse(int status, const std::string& message);

  void respond(HttpResponse response);
  void start_stream(const HttpResponse& head, std::string idle_text);
  void write(std::string_view text);
  bool is_behind() const;
  void finish();
  void on_idle();

  std::string head(const HttpResponse& response, std::optional<std::size_t> length) const;
  void append_chunk(std::string_view text);
  void send();
  void on_sent(const boost::system::error_code& error, std::size_t bytes);
  void on_answered();
  void linger();

  boost::asio::ip::tcp::socket socket_;
  HttpSessionContext& context_;
  const HttpLimits& limits_;
  State state_ = State::kReading;

  // Reading.
  std::array<char, 64 << 10> chunk_;
  bool reading_ = false;
  std::string input_;  // received, not parsed
  std::optional<Parser> parser_;
  bool begun_ = false;  // a byte of the request is there
  bool header_seen_ = false;
  ByteBudget::Lease body_lease_;
  Deadline read_deadline_;

  // Answering.
  std::shared_ptr<Exchange> exchange_;  // nullptr: none, or an answer of the session's own
  unsigned version_ = 11;
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool streaming_ = false;
  bool complete_ = false;  // nothing will be appended to output_
  std::string idle_text_;

  // Writing.
  OutputQueue output_;
  bool sending_ = false;  // from the beginning of output_
  Deadline write_deadline_;
  Deadline idle_deadline_;
};

}  // namespace tandem
