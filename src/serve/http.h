// Requests, responses and the exchange that joins them, without a word of sockets: what routes and
// their tests see of HTTP.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/byte_budget.h"

namespace tandem {

struct HttpHeader {
  std::string name;
  std::string value;
};

// Who sent a request, as far as its API key says.
struct Caller {
  std::uint64_t tenant = 0;  // number of the key; 0: none was asked for
  double weight = 1;         // the tenant's share of the machine beside others'
};

struct HttpRequest {
  std::string method;
  std::string path;   // percent-decoded, without the query
  std::string query;  // as sent, without the question mark
  std::vector<HttpHeader> headers;
  std::string body;
  std::string parameter = {};  // what the {...} of the route stands for (router.h)
  Caller caller = {};
  ByteBudget::Lease body_lease = {};  // counts `body` while the request lives

  // The first header of that name, whatever its case; empty if there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers = {};
  std::string body = {};
};

// One request being answered: either respond(), or start_stream(), write() and finish(). Everything
// but post() belongs to the network thread. Once the client has gone, answers go nowhere.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // Runs `task` on the network thread, in the order of the calls. Any thread.
  virtual void post(std::function<void()> task) = 0;

  virtual void respond(HttpResponse response) = 0;

  // `head` without a body. `idle_text` is written whenever nothing else was for a while, so that
  // those between us and the client keep the connection.
  virtual void start_stream(HttpResponse head, std::string idle_text) = 0;
  virtual void write(std::string_view text) = 0;
  virtual void finish() = 0;

  // `action` is called once if the client leaves before the answer is complete, stops reading it,
  // or the server closes; at once if that has happened.
  virtual void on_gone(std::function<void()> action) = 0;

  // The client is behind: what it has not read fills the kernel's buffers and more. Whoever writes
  // a stream had better wait until on_caught_up calls, each time it is behind no longer.
  virtual bool is_behind() const = 0;
  virtual void on_caught_up(std::function<void()> action) = 0;
};

// respond() from any thread.
void post_response(const std::shared_ptr<HttpExchange>& exchange, HttpResponse response);

// Called on the network thread; must not block it. The exchange is answered now or later.
using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<HttpExchange>)>;

// What one client may take.
struct HttpLimits {
  std::size_t max_connections = 1024;  // more wait to be accepted
  std::size_t max_header_bytes = std::size_t{64} << 10;
  std::size_t max_body_bytes = std::size_t{64} << 20;
  std::size_t max_body_bytes_together = std::size_t{1} << 30;  // of all requests not yet parsed
  // Of a stream that the client does not read, beyond what the kernel buffers; then it is cut.
  std::size_t max_unread_bytes = std::size_t{4} << 20;

  std::chrono::milliseconds idle_timeout{75'000};    // between requests of a connection
  std::chrono::milliseconds header_timeout{30'000};  // from a request's first byte to its body
  std::chrono::milliseconds body_timeout{300'000};
  std::chrono::milliseconds write_timeout{60'000};  // without the client taking a byte
  std::chrono::milliseconds linger_timeout{
      2'000};  // reading on after a refusal, so that it arrives
  std::chrono::milliseconds idle_text_interval{15'000};
};

// The path and query of a request target ("/v1/models?x=1", "http://host/v1/models").
struct HttpTarget {
  std::string path;
  std::string query;
};
HttpTarget parse_target(std::string_view target);

// Compares as header names and media types do.
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace tandem
