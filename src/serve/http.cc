#include "serve/http.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tandem {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// A '%' that no two hexadecimal digits follow stays.
std::string percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && text.size() - i > 2 &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(), [&](const HttpHeader& header) {
    return equal_ignoring_case(header.name, name);
  });
  return found == headers.end() ? std::string_view() : std::string_view(found->value);
}

HttpTarget parse_target(std::string_view target) {
  const std::size_t scheme = target.find("://");
  if (scheme != std::string_view::npos && scheme < target.find_first_of("/?")) {
    const std::size_t path = target.find_first_of("/?", scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  const std::size_t query = target.find('?');
  if (query == std::string_view::npos) return {percent_decode(target), {}};
  return {percent_decode(target.substr(0, query)), std::string(target.substr(query + 1))};
}

void post_response(const std::shared_ptr<HttpExchange>& exchange, HttpResponse response) {
  exchange->post([exchange, response = std::move(response)] { exchange->respond(response); });
}

}  // namespace tandem
