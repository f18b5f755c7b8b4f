#include "serve/http_server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <utility>

#include "serve/http_session.h"

namespace tandem {

using boost::asio::ip::tcp;
using boost::system::error_code;

namespace {

// The kernel's, of each connection. Left to itself it grows to megabytes for a client that reads
// slowly, and every piece of a stream costs a call to the kernel until it is full.
constexpr int kSendBufferBytes = 64 << 10;

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, HttpHandler handler)
      : options_(std::move(options)),
        handler_(std::move(handler)),
        bodies_(options_.limits.max_body_bytes_together),
        work_(io_.get_executor()),
        acceptor_(io_),
        accept_retry_(io_),
        drain_limit_(io_),
        signals_(io_) {
    context_.on_change = [this] { on_change(); };
  }

  Result<void> listen() {
    error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(options_.host, std::to_string(options_.port),
                                        tcp::resolver::passive, error);
    if (error) return invalid("--host: no address of '{}': {}", options_.host, error.message());
    const tcp::endpoint endpoint = *found.begin();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    // Its connections inherit it.
    if (!error) {
      acceptor_.set_option(boost::asio::socket_base::send_buffer_size(kSendBufferBytes), error);
    }
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(boost::asio::socket_base::max_listen_connections, error);
    if (error) {
      return invalid("cannot listen on {} port {}: {}", options_.host, options_.port,
                     error.message());
    }
    return {};
  }

  int port() const {
    error_code ignored;
    return acceptor_.local_endpoint(ignored).port();
  }

  void on_first_signal(const std::vector<int>& signals, std::function<void()> action) {
    for (const int signal : signals) signals_.add(signal);
    signals_.async_wait([this, action = std::move(action)](const error_code& error, int) {
      if (error) return;
      signals_.clear();
      action();
    });
  }

  void run() {
    accept();
    io_.run();
  }

  void run_posted() {
    io_.restart();
    io_.poll();
  }

  void post(std::function<void()> task) { boost::asio::post(io_, std::move(task)); }

  void drain(std::chrono::milliseconds limit) {
    if (std::exchange(context_.draining, true)) return;
    drain_limit_.expires_after(limit);
    drain_limit_.async_wait([this](const error_code& error) {
      if (!error) stop();
    });
    on_change();
  }

 private:
  void accept() {
    if (accepting_ || !acceptor_.is_open()) return;
    if (context_.open.size() >= options_.limits.max_connections) return;
    accepting_ = true;
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      accepting_ = false;
      if (!acceptor_.is_open()) return;
      if (!error) {
        std::make_shared<HttpSession>(std::move(socket), context_)->start();
        return accept();
      }
      // Out of descriptors, mostly: to try again at once would spin.
      accept_retry_.expires_after(std::chrono::milliseconds(50));
      accept_retry_.async_wait([this](const error_code& cancelled) {
        if (!cancelled) accept();
      });
    });
  }

  void on_change() {
    if (context_.draining && context_.answering == 0) return stop();
    accept();
  }

  void stop() {
    if (std::exchange(stopped_, true)) return;
    error_code ignored;
    acceptor_.close(ignored);
    accept_retry_.cancel();
    drain_limit_.cancel();
    signals_.cancel(ignored);
    const auto open = context_.open;
    for (HttpSession* session : open) session->close();
    work_.reset();
  }

  const HttpServerOptions options_;
  const HttpHandler handler_;
  ByteBudget bodies_;
  boost::asio::io_context io_{1};
  HttpSessionContext context_{
      .io = io_, .options = options_, .handler = handler_, .bodies = bodies_};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  tcp::acceptor acceptor_;
  boost::asio::steady_timer accept_retry_;
  boost::asio::steady_timer drain_limit_;
  boost::asio::signal_set signals_;
  bool accepting_ = false;
  bool stopped_ = false;
};

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpServerOptions options,
                                                       HttpHandler handler) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(handler));
  TRY(impl->listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port(); }
void HttpServer::on_first_signal(const std::vector<int>& signals, std::function<void()> action) {
  impl_->on_first_signal(signals, std::move(action));
}
void HttpServer::run() { impl_->run(); }
void HttpServer::run_posted() { impl_->run_posted(); }
void HttpServer::post(std::function<void()> task) { impl_->post(std::move(task)); }
void HttpServer::drain(std::chrono::milliseconds limit) {
  impl_->post([this, limit] { impl_->drain(limit); });
}

}  // namespace tandem
