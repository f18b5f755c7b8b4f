// The server that is asked, as a user names it.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tandem::loadgen {

struct Target {
  std::string host;  // a name or an address, without the brackets of IPv6
  int port = 80;
  std::string base_path = {};  // before "/v1/..."; empty or "/..." without a slash at its end

  std::string authority() const;  // for the Host header
  std::string url() const;
};

// "http://host:port", the scheme optional; a path may follow, and its last part may be /v1.
// kInvalidArgument for anything else, https included.
Result<Target> parse_target_url(std::string_view url);

}  // namespace tandem::loadgen
