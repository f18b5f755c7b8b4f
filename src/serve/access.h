// Which key a request needs, and what the key lets it do.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "serve/api_keys.h"
#include "serve/http.h"
#include "serve/refusal.h"

namespace tandem {

enum class Access {
  kOpen,      // nobody has to say who it is: health, the console's files
  kKnown,     // a key, where there are keys
  kGenerate,  // the same, and it counts against the key's limits
  // Runs the server rather than using it: the admin key if there is one, else any key. Without any
  // key, only a server that listens to its own machine alone lets such requests in.
  kAdmin,
};

// Guards handlers. Immutable, thread-safe; outlives what it guards.
class AccessControl {
 public:
  // `admin_secret`: empty for none. `is_local`: the server listens on a loopback address.
  AccessControl(std::unique_ptr<ApiKeys> keys, std::string admin_secret, bool is_local)
      : keys_(std::move(keys)), admin_secret_(std::move(admin_secret)), is_local_(is_local) {}

  // `handler` behind a check of the request's key: 401 without a valid one, 403 if it is not the
  // admin's, 429 with Retry-After beyond its limits, each as `format` spells it. What is let in
  // has HttpRequest::caller set. OPTIONS never gets here.
  HttpHandler guard(Access access, HttpHandler handler, DenialFormat format) const;

 private:
  struct Denial {
    int status;
    std::string message;
  };
  // The number of the key that asks; 0 for the admin's, and where no key is needed.
  tl::expected<std::size_t, Denial> identify(Access access, const HttpRequest& request) const;

  const std::unique_ptr<ApiKeys> keys_;
  const std::string admin_secret_;
  const bool is_local_;
};

}  // namespace tandem
