#include "text/xtml_marker.h"

#include <algorithm>

namespace tandem {
namespace {

std::string unescape(std::string_view value) {
  std::string out;
  while (!value.empty()) {
    if (value.starts_with("&quot;")) {
      out += '"';
      value.remove_prefix(6);
    } else if (value.starts_with("&amp;")) {
      out += '&';
      value.remove_prefix(5);
    } else {
      out += value.front();
      value.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace

std::string_view XtmlMarker::attribute(std::string_view key) const {
  const auto it = std::find_if(attributes.rbegin(), attributes.rend(),
                               [&](const auto& entry) { return entry.first == key; });
  return it == attributes.rend() ? std::string_view() : it->second;
}

XtmlMarker parse_xtml_marker(std::string_view text) {
  std::size_t at = std::min(text.find(' '), text.size());
  XtmlMarker marker{std::string(text.substr(0, at))};
  for (;;) {
    at = text.find_first_not_of(' ', at);
    const std::size_t equals = text.find("=\"", std::min(at, text.size()));
    if (equals == std::string_view::npos) return marker;
    const std::size_t end = text.find('"', equals + 2);
    if (end == std::string_view::npos) return marker;
    marker.attributes.emplace_back(text.substr(at, equals - at),
                                   unescape(text.substr(equals + 2, end - equals - 2)));
    at = end + 1;
  }
}

std::string escape_xtml_attribute(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace tandem
