#include "loadgen/http_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/write.hpp>
#include <limits>
#include <utility>

namespace tandem::loadgen {
namespace http = boost::beast::http;
using boost::asio::buffer;
using boost::asio::ip::tcp;
using boost::system::error_code;

Result<std::unique_ptr<HttpClient>> HttpClient::create(boost::asio::io_context& io, Target target,
                                                       std::string api_key) {
  std::unique_ptr<HttpClient> client(new HttpClient(io, std::move(target), std::move(api_key)));
  error_code error;
  tcp::resolver resolver(io);
  for (const auto& found :
       resolver.resolve(client->target_.host, std::to_string(client->target_.port), error)) {
    client->endpoints_.push_back(found.endpoint());
  }
  if (error || client->endpoints_.empty()) {
    return fail(StatusCode::kUnavailable, "{}: {}", client->target_.host, error.message());
  }
  return client;
}

std::shared_ptr<HttpCall> HttpClient::call(const std::string& path, std::string_view body,
                                           CallEvents events, std::chrono::milliseconds timeout) {
  std::string request =
      fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tandem-bench\r\n",
                  body.empty() ? "GET" : "POST", target_.base_path, path, target_.authority());
  if (!api_key_.empty()) request += fmt::format("Authorization: Bearer {}\r\n", api_key_);
  if (!body.empty()) {
    request += fmt::format(
        "Content-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: {}\r\n",
        body.size());
  }
  request += "\r\n";
  request += body;
  auto call = std::make_shared<HttpCall>(*this, std::move(request), std::move(events));
  call->start(timeout);
  return call;
}

HttpCall::HttpCall(HttpClient& client, std::string request, CallEvents events)
    : client_(client),
      request_(std::move(request)),
      events_(std::move(events)),
      deadline_(client.io_) {}

void HttpCall::start(std::chrono::milliseconds timeout) {
  deadline_.expires_after(timeout);
  deadline_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error) self->finish(CallEnd::kTimeout, "");
  });
  if (!client_.idle_.empty()) {
    socket_ = std::move(client_.idle_.back());
    client_.idle_.pop_back();
    reused_ = true;
    return send();
  }
  connect();
}

void HttpCall::cancel() {
  done_ = true;
  deadline_.cancel();
  close();
}

// The socket itself lives on: operations that are under way refer to it until they have ended.
void HttpCall::close() {
  error_code ignored;
  if (socket_) socket_->close(ignored);
}

void HttpCall::connect() {
  reused_ = false;
  socket_.emplace(client_.io_);
  boost::asio::async_connect(
      *socket_, client_.endpoints_,
      [self = shared_from_this()](const error_code& error, const tcp::endpoint&) {
        if (self->done_) return;
        if (error) return self->finish(CallEnd::kConnect, error.message());
        error_code ignored;
        self->socket_->set_option(tcp::no_delay(true), ignored);
        self->send();
      });
}

void HttpCall::send() {
  parser_.emplace();
  parser_->eager(true);
  parser_->body_limit(boost::none);
  boost::asio::async_write(*socket_, buffer(request_),
                           [self = shared_from_this()](const error_code&, std::size_t) {
                             // Who does not take all of a request may have answered it: read on.
                             if (!self->done_) self->read();
                           });
}

void HttpCall::read() {
  socket_->async_read_some(buffer(chunk_),
                           [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                             if (!self->done_) self->on_read(error, bytes);
                           });
}

void HttpCall::on_read(const error_code& error, std::size_t bytes) {
  if (error) {
    // The end of the connection may be the end of the body.
    error_code parsing;
    if (error == boost::asio::error::eof && parser_->got_some()) parser_->put_eof(parsing);
    if (!parsing && parser_->is_done()) return finish(CallEnd::kComplete, "");
    return on_failure(CallEnd::kCut, error.message());
  }
  received_ = true;
  input_.append(chunk_.data(), bytes);
  consume();
  if (!done_) read();
}

void HttpCall::consume() {
  while (!input_.empty()) {
    error_code error;
    const std::size_t used = parser_->put(buffer(input_), error);
    input_.erase(0, used);
    if (error && error != http::error::need_more) {
      return finish(CallEnd::kMalformed, error.message());
    }
    report_progress();
    if (done_) return;
    if (parser_->is_done()) return finish(CallEnd::kComplete, "");
    if (used == 0) return;
  }
}

void HttpCall::report_progress() {
  if (!parser_->is_header_done()) return;
  const auto self = shared_from_this();  // an event may cancel the call
  auto& message = parser_->get();
  if (!std::exchange(head_told_, true)) {
    events_.on_head(message.result_int(), std::string_view(message[http::field::content_type]));
    if (done_) return;
  }
  const std::string body = std::exchange(message.body(), {});
  if (!body.empty()) events_.on_body(body);
}

// A kept connection that the server has closed meanwhile is no failure of the server.
void HttpCall::on_failure(CallEnd end, const std::string& detail) {
  if (reused_ && !received_) return connect();
  finish(end, detail);
}

void HttpCall::finish(CallEnd end, const std::string& detail) {
  const auto self = shared_from_this();
  if (std::exchange(done_, true)) return;
  deadline_.cancel();
  if (end == CallEnd::kComplete && input_.empty() && parser_->keep_alive() &&
      !parser_->need_eof()) {
    client_.idle_.push_back(*std::move(socket_));
  } else {
    close();
  }
  const CallEvents events = std::exchange(events_, {});
  events.on_end(end, detail);
}

}  // namespace tandem::loadgen
