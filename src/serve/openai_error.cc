#include "serve/openai_error.h"

#include "serve/json_dump.h"

namespace tandem {
namespace {

// Messages quote what the client sent.
constexpr std::size_t kMaxMessageBytes = 500;

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 408:
      return "timeout_error";
    case 429:
      return "rate_limit_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "service_unavailable";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string shortened(std::string text) {
  if (text.size() <= kMaxMessageBytes) return text;
  text.resize(kMaxMessageBytes);
  return text + "…";
}

HttpResponse response_of(int status, std::string body) {
  HttpResponse response{.status = status, .body = std::move(body)};
  if (status == 429 || status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

}  // namespace

std::string error_body(int status, const std::string& message, const std::string& param,
                       const std::string& code) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? OrderedJson() : OrderedJson(text);
  };
  OrderedJson error;
  error["message"] = shortened(message);
  error["type"] = error_type(status);
  error["param"] = or_null(param);
  error["code"] = or_null(code);
  OrderedJson body;
  body["error"] = std::move(error);
  // What a client sent may be quoted, and cut in the middle of a character.
  return dump_json(body);
}

std::string client_message(const Status& status) {
  if (status.field.empty() || status.message.starts_with(status.field)) {
    return shortened(status.message);
  }
  return shortened(status.field + ": " + status.message);
}

std::string error_body(const Status& status, const std::string& code) {
  return error_body(http_status(status.code), client_message(status), status.field, code);
}

HttpResponse error_response(int status, const std::string& message) {
  return response_of(status, error_body(status, message));
}
HttpResponse error_response(const Status& status, const std::string& code) {
  return response_of(http_status(status.code), error_body(status, code));
}

HttpResponse openai_denial(int status, const std::string& message) {
  return error_response(status, message);
}

HttpResponse openai_error_format(const Refusal& refusal) {
  return error_response(refusal.status, refusal.code);
}

}  // namespace tandem
