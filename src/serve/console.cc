#include "serve/console.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

constexpr std::string_view kIndex = "index.html";

// Trusted types: a script that would write HTML out of a string (a model's, say) throws.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

std::string content_type(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, const char*>, 4> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".svg", "image/svg+xml"},
  }};
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  CHECK(false, "the console has a file of no known type: {}", name);
  return {};
}

// FNV-1a: equal for equal bytes is all that is asked of it.
std::string entity_tag(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return fmt::format("\"{:016x}\"", hash);
}

HttpHandler file_route(const EmbeddedFile& file) {
  HttpResponse whole{.content_type = content_type(file.name),
                     .headers = {{"Cache-Control", "no-cache"},
                                 {"Content-Security-Policy", kPolicy},
                                 {"ETag", entity_tag(file.bytes)},
                                 {"Referrer-Policy", "no-referrer"},
                                 {"X-Content-Type-Options", "nosniff"}},
                     .body = std::string(file.bytes)};
  return [whole = std::move(whole), tag = entity_tag(file.bytes)](
             HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
    HttpResponse response = whole;
    if (request.header("If-None-Match").find(tag) != std::string_view::npos) {
      response.status = 304;
      response.body.clear();
    }
    exchange->respond(std::move(response));
  };
}

}  // namespace

std::vector<Route> console_routes() {
  std::vector<Route> routes;
  for (const EmbeddedFile& file : embedded_console_files()) {
    const std::string path = file.name == kIndex ? "/" : fmt::format("/{}", file.name);
    routes.push_back({"GET", path, file_route(file)});
  }
  return routes;
}

}  // namespace tandem
