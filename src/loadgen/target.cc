#include "loadgen/target.h"

#include <charconv>

namespace tandem::loadgen {
namespace {

Result<int> parse_port(std::string_view text, std::string_view url) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535) {
    return invalid("{}: expected a port from 1 to 65535, got '{}'", url, text);
  }
  return port;
}

}  // namespace

std::string Target::authority() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
}

std::string Target::url() const { return "http://" + authority() + base_path; }

Result<Target> parse_target_url(std::string_view url) {
  std::string_view rest = url;
  if (const std::size_t scheme = rest.find("://"); scheme != std::string_view::npos) {
    if (rest.substr(0, scheme) != "http") {
      return invalid("{}: only http:// is supported", url);
    }
    rest.remove_prefix(scheme + 3);
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  std::string_view path = rest.substr(slash);
  if (url.find_first_of("?#@ \t\r\n") != std::string_view::npos) {
    return invalid("{}: expected http://HOST:PORT, with a path at most", url);
  }
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with("/v1")) path.remove_suffix(3);

  Target target;
  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return invalid("{}: a ']' is missing", url);
    target.host = authority.substr(1, bracket - 1);
    port = authority.substr(bracket + 1);
    if (!port.empty() && port.front() != ':') return invalid("{}: expected ':' after ']'", url);
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    target.host = authority.substr(0, colon);
    port = authority.substr(colon);
  }
  if (target.host.empty()) return invalid("{}: the host is missing", url);
  if (!port.empty()) target.port = TRY(parse_port(port.substr(1), url));
  target.base_path = path;
  return target;
}

}  // namespace tandem::loadgen
