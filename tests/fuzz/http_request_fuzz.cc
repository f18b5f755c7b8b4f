// Any method, target and headers may come from the network: what Tandem reads of them itself (the
// protocol is Beast's), up to the handler that a router finds.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "serve/fake_exchange.h"
#include "serve/router.h"

namespace {

using namespace tandem;

// Up to the next newline, which is taken, too.
std::string_view take_line(std::string_view* rest) {
  const std::size_t end = rest->find('\n');
  const std::string_view line = rest->substr(0, end);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  return line;
}

void check_target(std::string_view target, const HttpTarget& parsed) {
  CHECK(parsed.path.size() <= target.size() || target.find('/') == std::string_view::npos,
        "'{}' became '{}'", target, parsed.path);
  CHECK(target.ends_with(parsed.query), "'{}' became '{}'", target, parsed.query);
  // Read once only: an escaped escape is not read again.
  std::string escaped;
  for (const char c : parsed.path) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    escaped += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  const HttpTarget again = parse_target(escaped + "?" + parsed.query);
  CHECK(again.path == parsed.path && again.query == parsed.query, "'{}' / '{}'", again.path,
        parsed.path);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view method = take_line(&rest), target = take_line(&rest);
  const HttpTarget parsed = parse_target(target);
  check_target(target, parsed);

  int handled = 0;
  const HttpHandler handler = [&](HttpRequest request,
                                  const std::shared_ptr<HttpExchange>& exchange) {
    CHECK(request.path == "/v1/models" || request.path == "/v1/models/" + request.parameter,
          "'{}' for '{}'", request.parameter, request.path);
    ++handled;
    exchange->respond({});
  };
  const Router router({{"GET", "/v1/models", handler},
                       {"POST", "/v1/models", handler},
                       {"GET", "/v1/models/{id}", handler}});
  HttpRequest request;
  request.method = method;
  request.path = parsed.path;
  request.query = parsed.query;
  while (request.headers.size() < 8 && rest.find(':') < rest.find('\n')) {
    const std::string_view line = take_line(&rest);
    const std::size_t colon = line.find(':');
    request.headers.push_back(
        {std::string(line.substr(0, colon)), std::string(line.substr(colon + 1))});
  }
  request.body = rest;
  const auto exchange = std::make_shared<FakeExchange>();
  router(std::move(request), exchange);
  CHECK(exchange->response.has_value(), "no answer");
  const int status = exchange->response->status;
  constexpr std::array kStatuses = {200, 204, 404, 405, 415};
  CHECK(std::find(kStatuses.begin(), kStatuses.end(), status) != kStatuses.end(), "{}", status);
  CHECK((status == 200) == (handled == 1) && handled <= 1, "{} after {} handlers", status, handled);
  return 0;
}
