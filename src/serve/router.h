// Which handler answers which method and path.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/http.h"
#include "serve/openai_error.h"

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
  // How errors of a path are spelt.
  using Denials = DenialFormat (*)(std::string_view path);

  explicit Router(
      std::vector<Route> routes,
      Denials denials = [](std::string_view) -> DenialFormat { return openai_denial; })
      : routes_(std::move(routes)), denials_(denials) {}

  void operator()(HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) const;

 private:
  std::vector<Route> routes_;
  Denials denials_;
};

}  // namespace tandem
