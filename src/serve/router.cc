#include "serve/router.h"

#include <fmt/core.h>

#include <optional>

namespace tandem {
namespace {

// What "{...}" of the pattern stands for, empty without one; nullopt if `path` does not match.
std::optional<std::string> match(std::string_view pattern, std::string_view path) {
  const std::size_t brace = pattern.find('{');
  if (brace == std::string_view::npos) {
    return pattern == path ? std::optional<std::string>("") : std::nullopt;
  }
  const std::string_view prefix = pattern.substr(0, brace);
  if (path.size() <= prefix.size() || !path.starts_with(prefix)) return std::nullopt;
  return std::string(path.substr(prefix.size()));
}

bool is_json(std::string_view content_type) {
  std::string_view media = content_type.substr(0, content_type.find(';'));
  while (media.ends_with(' ')) media.remove_suffix(1);
  return equal_ignoring_case(media, "application/json");
}

// A wildcard would not cover Authorization, so what the browser asks for is allowed by name.
HttpResponse options_response(const std::string& allowed, std::string_view asked_headers) {
  HttpResponse response{.status = 204,
                        .headers = {{"Allow", allowed},
                                    {"Access-Control-Allow-Methods", allowed},
                                    {"Access-Control-Max-Age", "86400"}}};
  if (!asked_headers.empty()) {
    response.headers.push_back({"Access-Control-Allow-Headers", std::string(asked_headers)});
  }
  return response;
}

}  // namespace

void Router::operator()(HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) const {
  const DenialFormat deny = denials_(request.path);
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const Route& route : routes_) {
    auto parameter = match(route.path, request.path);
    if (!parameter) continue;
    allowed += (allowed.empty() ? "" : ", ") + route.method;
    if (route.method != method) continue;
    if (method == "POST" && !request.body.empty() && !is_json(request.header("Content-Type"))) {
      return exchange->respond(
          deny(415, fmt::format("expected Content-Type: application/json, got '{}'",
                                request.header("Content-Type"))));
    }
    request.parameter = *std::move(parameter);
    return route.handler(std::move(request), exchange);
  }
  if (allowed.empty()) {
    return exchange->respond(deny(404, fmt::format("no route {}", request.path)));
  }
  if (method == "OPTIONS") {
    return exchange->respond(
        options_response(allowed + ", OPTIONS", request.header("Access-Control-Request-Headers")));
  }
  HttpResponse response =
      deny(405, fmt::format("{} takes {}, not {}", request.path, allowed, request.method));
  response.headers.push_back({"Allow", allowed});
  exchange->respond(std::move(response));
}

}  // namespace tandem
