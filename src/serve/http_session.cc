#include "serve/http_session.h"

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace tandem {
namespace http = boost::beast::http;
using boost::asio::buffer;
using boost::system::error_code;

namespace {

// Of requests sent ahead; beyond it the client has to wait, and its leaving goes unnoticed.
constexpr std::size_t kMaxAheadBytes = 64 << 10;

// Unsent bytes beyond which a client is behind.
constexpr std::size_t kBehindBytes = 4 << 10;

// As asio takes them. It hands the kernel all that there are, so empty ones must not be among them.
class Buffers {
 public:
  explicit Buffers(const OutputQueue::Parts& unread) : count_(unread.count) {
    for (std::size_t i = 0; i < count_; ++i) {
      buffers_[i] = buffer(unread.parts[i].data(), unread.parts[i].size());
    }
  }
  const boost::asio::const_buffer* begin() const { return buffers_.data(); }
  const boost::asio::const_buffer* end() const { return begin() + count_; }

 private:
  std::array<boost::asio::const_buffer, OutputQueue::kMaxParts> buffers_;
  std::size_t count_;
};

int refusal_status(const error_code& error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit) return 413;
  return 400;
}

std::string refusal_message(int status, const error_code& error, const HttpLimits& limits) {
  if (status == 431) return fmt::format("the header exceeds {} bytes", limits.max_header_bytes);
  if (status == 413) return fmt::format("the body exceeds {} bytes", limits.max_body_bytes);
  return fmt::format("not an HTTP request: {}", error.message());
}

}  // namespace

void Deadline::set(std::chrono::milliseconds after, const std::shared_ptr<HttpSession>& owner,
                   Action action) {
  action_ = action;
  due_ = std::chrono::steady_clock::now() + after;
  if (!waiting_ || timer_.expiry() > *due_) wait(owner, *due_);
}

void Deadline::cancel() {
  due_.reset();
  ++round_;
  waiting_ = false;
  timer_.cancel();
}

void Deadline::wait(std::shared_ptr<HttpSession> owner, TimePoint until) {
  waiting_ = true;
  timer_.expires_at(until);
  timer_.async_wait([owner = std::move(owner), round = ++round_, this](const error_code& error) {
    if (error || round != round_) return;
    waiting_ = false;
    if (!due_) return;
    if (std::chrono::steady_clock::now() < *due_) return wait(owner, *due_);
    due_.reset();
    (owner.get()->*action_)();
  });
}

// The handler's end of a request. It outlives its session's interest in it harmlessly. Calls hold
// the session, which may let go of the exchange, and so of itself, while they run.
class HttpSession::Exchange final : public HttpExchange {
 public:
  explicit Exchange(std::shared_ptr<HttpSession> session)
      : session_(std::move(session)), io_(session_->context_.io) {}

  void post(std::function<void()> task) override { boost::asio::post(io_, std::move(task)); }

  void respond(HttpResponse response) override {
    if (const auto session = session_) session->respond(std::move(response));
  }
  void start_stream(HttpResponse head, std::string idle_text) override {
    if (const auto session = session_) session->start_stream(head, std::move(idle_text));
  }
  void write(std::string_view text) override {
    if (const auto session = session_) session->write(text);
  }
  void finish() override {
    if (const auto session = session_) session->finish();
  }
  void on_gone(std::function<void()> action) override {
    if (gone_) return action();
    on_gone_ = std::move(action);
  }

  bool is_behind() const override { return session_ != nullptr && session_->is_behind(); }
  void on_caught_up(std::function<void()> action) override { on_caught_up_ = std::move(action); }

  void caught_up() const {
    if (on_caught_up_) on_caught_up_();
  }
  // The session has the whole answer.
  void detach() {
    session_ = nullptr;
    on_gone_ = nullptr;
    on_caught_up_ = nullptr;
  }
  // The session has no client any more.
  void leave() {
    session_ = nullptr;
    gone_ = true;
    on_caught_up_ = nullptr;
    if (const auto action = std::exchange(on_gone_, nullptr)) action();
  }

 private:
  std::shared_ptr<HttpSession> session_;
  boost::asio::io_context& io_;
  std::function<void()> on_gone_;
  std::function<void()> on_caught_up_;
  bool gone_ = false;
};

HttpSession::HttpSession(boost::asio::ip::tcp::socket socket, HttpSessionContext& context)
    : socket_(std::move(socket)),
      context_(context),
      limits_(context.options.limits),
      read_deadline_(context.io),
      write_deadline_(context.io),
      idle_deadline_(context.io) {}

void HttpSession::start() {
  context_.open.insert(this);
  error_code ignored;
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  await_request();
  read();
}

void HttpSession::close() {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  if (state_ == State::kAnswering) --context_.answering;
  state_ = State::kClosed;
  context_.open.erase(this);
  error_code ignored;
  socket_.close(ignored);
  for (Deadline* deadline : {&read_deadline_, &write_deadline_, &idle_deadline_}) {
    deadline->cancel();
  }
  body_lease_ = {};
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->leave();
  context_.on_change();
}

// --- reading ---

void HttpSession::read() {
  const bool full = state_ == State::kAnswering && input_.size() >= kMaxAheadBytes;
  if (reading_ || full || state_ == State::kClosed) return;
  reading_ = true;
  socket_.async_read_some(buffer(chunk_),
                          [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                            self->on_read(error, bytes);
                          });
}

void HttpSession::on_read(const error_code& error, std::size_t bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error) {
    // Who has sent all there is to send still gets the answer that is on its way.
    if (!complete_) return close();
    keep_alive_ = false;
    return;
  }
  if (state_ != State::kLingering) {
    if (state_ == State::kReading && !std::exchange(begun_, true)) {
      read_deadline_.set(limits_.header_timeout, shared_from_this(), &HttpSession::on_read_timeout);
    }
    input_.append(chunk_.data(), bytes);
    consume();
  }
  read();
}

void HttpSession::await_request() {
  state_ = State::kReading;
  begun_ = !input_.empty();
  header_seen_ = false;
  body_lease_ = ByteBudget::Lease(context_.bodies);
  parser_.emplace();
  parser_->eager(true);
  parser_->header_limit(static_cast<std::uint32_t>(limits_.max_header_bytes));
  parser_->body_limit(limits_.max_body_bytes);
  read_deadline_.set(begun_ ? limits_.header_timeout : limits_.idle_timeout, shared_from_this(),
                     &HttpSession::on_read_timeout);
}

void HttpSession::consume() {
  while (state_ == State::kReading && !input_.empty()) {
    if (!feed_parser()) return;
  }
}

// False if the rest of the input has to wait for more.
bool HttpSession::feed_parser() {
  error_code error;
  const std::size_t used = parser_->put(buffer(input_), error);
  input_.erase(0, used);
  if (error && error != http::error::need_more) {
    const int status = refusal_status(error);
    refuse(status, refusal_message(status, error, limits_));
    return false;
  }
  if (!header_seen_ && parser_->is_header_done()) on_header();
  if (!body_lease_.grow_to(parser_->get().body().size())) {
    refuse(503, "the bodies of requests fill their memory; try again later");
    return false;
  }
  if (parser_->is_done()) {
    dispatch();
    return true;
  }
  return used > 0;
}

void HttpSession::on_header() {
  header_seen_ = true;
  const auto& message = parser_->get();
  version_ = message.version();
  read_deadline_.set(limits_.body_timeout, shared_from_this(), &HttpSession::on_read_timeout);
  if (!parser_->is_done() &&
      equal_ignoring_case(std::string_view(message[http::field::expect]), "100-continue")) {
    output_.append("HTTP/1.1 100 Continue\r\n\r\n");
    send();
  }
}

void HttpSession::dispatch() {
  read_deadline_.clear();
  state_ = State::kAnswering;
  ++context_.answering;
  auto message = parser_->release();
  HttpTarget target = parse_target(std::string_view(message.target()));
  HttpRequest request{.method = std::string(message.method_string()),
                      .path = std::move(target.path),
                      .query = std::move(target.query),
                      .headers = {},
                      .body = std::move(message.body())};
  for (const auto& field : message) {
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  request.body_lease = std::move(body_lease_);
  keep_alive_ = message.keep_alive();
  head_only_ = message.method() == http::verb::head;
  exchange_ = std::make_shared<Exchange>(shared_from_this());
  context_.handler(std::move(request), exchange_);
}

void HttpSession::on_read_timeout() {
  if (state_ == State::kReading && begun_) {
    return refuse(408, "the request did not arrive in time");
  }
  close();
}

// Answers what will not become a request, and ends the connection.
void HttpSession::refuse(int status, const std::string& message) {
  read_deadline_.clear();
  body_lease_ = {};
  input_.clear();
  parser_.reset();
  state_ = State::kAnswering;
  ++context_.answering;
  keep_alive_ = false;
  head_only_ = false;
  respond(context_.options.refusal(status, message));
}

// --- answering ---

std::string HttpSession::head(const HttpResponse& response,
                              std::optional<std::size_t> length) const {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", response.status,
                                 std::string_view(http::obsolete_reason(
                                     http::int_to_status(static_cast<unsigned>(response.status)))));
  if (response.status != 204) {
    text += fmt::format("Content-Type: {}\r\n", response.content_type);
    if (length) text += fmt::format("Content-Length: {}\r\n", *length);
    if (!length && version_ >= 11) text += "Transfer-Encoding: chunked\r\n";
  }
  for (const auto* headers : {&context_.options.headers, &response.headers}) {
    for (const HttpHeader& header : *headers) {
      text += fmt::format("{}: {}\r\n", header.name, header.value);
    }
  }
  if (!keep_alive_) text += "Connection: close\r\n";
  if (keep_alive_ && version_ < 11) text += "Connection: keep-alive\r\n";
  return text + "\r\n";
}

void HttpSession::respond(HttpResponse response) {
  keep_alive_ = keep_alive_ && !context_.draining;
  output_.append(head(response, response.body.size()));
  if (!head_only_) output_.append(response.body);
  finish();
}

void HttpSession::start_stream(const HttpResponse& response, std::string idle_text) {
  // Before chunks, the end of the connection was the end of the body.
  keep_alive_ = keep_alive_ && !context_.draining && version_ >= 11;
  streaming_ = true;
  idle_text_ = std::move(idle_text);
  output_.append(head(response, std::nullopt));
  on_idle();
}

void HttpSession::on_idle() {
  // The first time, right after the head, there is nothing to bridge.
  if (!sending_ && output_.empty()) append_chunk(idle_text_);
  idle_deadline_.set(limits_.idle_text_interval, shared_from_this(), &HttpSession::on_idle);
  send();
}

void HttpSession::append_chunk(std::string_view text) {
  if (head_only_ || text.empty()) return;
  if (version_ < 11) return output_.append(text);
  std::array<char, 24> size;
  const auto end = fmt::format_to_n(size.data(), size.size(), "{:x}\r\n", text.size()).out;
  output_.append({size.data(), end});
  output_.append(text);
  output_.append("\r\n");
}

void HttpSession::write(std::string_view text) {
  append_chunk(text);
  if (output_.size() > limits_.max_unread_bytes) return close();
  idle_deadline_.set(limits_.idle_text_interval, shared_from_this(), &HttpSession::on_idle);
  send();
}

bool HttpSession::is_behind() const { return output_.size() > kBehindBytes; }

void HttpSession::finish() {
  if (streaming_ && !head_only_ && version_ >= 11) output_.append("0\r\n\r\n");
  idle_deadline_.clear();
  streaming_ = false;
  complete_ = true;
  // From here on the client's leaving concerns nobody.
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->detach();
  send();
}

// --- writing ---

void HttpSession::send() {
  if (sending_ || state_ == State::kClosed || output_.empty()) return;
  sending_ = true;
  write_deadline_.set(limits_.write_timeout, shared_from_this(), &HttpSession::close);
  socket_.async_write_some(Buffers(output_.unread()),
                           [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                             self->on_sent(error, bytes);
                           });
}

void HttpSession::on_sent(const error_code& error, std::size_t bytes) {
  sending_ = false;
  if (state_ == State::kClosed) return;
  if (error) return close();
  write_deadline_.clear();
  const bool was_behind = is_behind();
  output_.consume(bytes);
  // A call may end the exchange, and so itself.
  if (const auto exchange = exchange_; was_behind && !is_behind() && exchange != nullptr) {
    exchange->caught_up();
  }
  if (!output_.empty()) return send();
  if (complete_) on_answered();
}

void HttpSession::on_answered() {
  complete_ = false;
  --context_.answering;
  if (keep_alive_) {
    await_request();
    consume();
    read();
  } else {
    linger();
  }
  context_.on_change();
}

// To close with input unread would destroy the answer on its way: read on for a while.
void HttpSession::linger() {
  state_ = State::kLingering;
  error_code ignored;
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  read_deadline_.set(limits_.linger_timeout, shared_from_this(), &HttpSession::close);
  read();
}

}  // namespace tandem
