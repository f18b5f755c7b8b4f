#include "serve/access.h"

#include <utility>

#include "serve/wrapped_exchange.h"

namespace tandem {
namespace {

// Holds a request's place among those of its key until nobody needs the exchange any more.
class LeasedExchange final : public WrappedExchange {
 public:
  LeasedExchange(std::shared_ptr<HttpExchange> inner, std::unique_ptr<ApiKeys::Lease> lease)
      : WrappedExchange(std::move(inner)), lease_(std::move(lease)) {}

 private:
  const std::unique_ptr<ApiKeys::Lease> lease_;
};

}  // namespace

tl::expected<std::size_t, AccessControl::Denial> AccessControl::identify(
    Access access, const HttpRequest& request) const {
  const std::string_view secret =
      secret_of(request.header("Authorization"), request.header("x-api-key"));
  const bool has_admin = !admin_secret_.empty();
  if (has_admin && equal_in_constant_time(admin_secret_, secret)) return 0;
  const auto number = keys_->find(secret);
  const bool needs_key = !keys_->empty() || (access == Access::kAdmin && has_admin);
  if (needs_key && !number) {
    return tl::unexpected(Denial{
        401, secret.empty() ? "an API key is needed, as Authorization: Bearer KEY or x-api-key: KEY"
                            : "the API key is not valid"});
  }
  if (access == Access::kAdmin && has_admin) {
    return tl::unexpected(Denial{403, "this route needs the admin key"});
  }
  if (access == Access::kAdmin && keys_->empty() && !is_local_) {
    return tl::unexpected(
        Denial{403,
               "without keys this route is open only while the server listens to its own machine: "
               "start it with --admin-api-key"});
  }
  return number.value_or(0);
}

HttpHandler AccessControl::guard(Access access, HttpHandler handler, DenialFormat format) const {
  if (access == Access::kOpen) return handler;
  return [this, access, handler = std::move(handler), format](
             HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
    const auto number = identify(access, request);
    if (!number) {
      HttpResponse response = format(number.error().status, number.error().message);
      if (response.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
      return exchange->respond(std::move(response));
    }
    if (*number > 0) request.caller = {.tenant = *number, .weight = keys_->at(*number).weight};
    if (*number > 0 && access == Access::kGenerate) {
      ApiKeys::Admission admission = keys_->admit(*number);
      if (!admission.lease) {
        HttpResponse response = format(429, admission.reason);
        std::erase_if(response.headers, [](const HttpHeader& header) {
          return equal_ignoring_case(header.name, "Retry-After");
        });
        response.headers.push_back({"Retry-After", std::to_string(admission.retry_after_s)});
        return exchange->respond(std::move(response));
      }
      exchange = std::make_shared<LeasedExchange>(std::move(exchange), std::move(admission.lease));
    }
    handler(std::move(request), std::move(exchange));
  };
}

}  // namespace tandem
