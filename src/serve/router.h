// Which handler answers which method and path.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/http.h"

namespace tandem {

struct Route {
  std::string method;  // GET answers HEAD, too; POST takes JSON bodies, or none
  std::string path;    // "/v1/models"; a last "{...}" stands for all the rest, slashes included
  HttpHandler handler;
};

// Immutable, thread-safe. Answers itself: an unknown path with 404, a known one's wrong method with
// 405, a body that is not JSON with 415, OPTIONS (a browser asks first) with what is allowed.
class Router {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

  void operator()(HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace tandem
