#include "serve/messages_error.h"

#include "serve/json_dump.h"
#include "serve/openai_error.h"
#include "serve/respelling.h"

namespace tandem {
namespace {

// Anthropic's status of a server that cannot take more; its clients try again.
constexpr int kOverloaded = 529;

int messages_status(StatusCode code) {
  return code == StatusCode::kUnavailable ? kOverloaded : http_status(code);
}

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
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case kOverloaded:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

// "messages[2].content" -> "messages.2.content".
std::string dotted(const std::string& field) {
  std::string out;
  for (const char c : field) {
    if (c == '[') out += '.';
    if (c != '[' && c != ']') out += c;
  }
  return out;
}

std::string body_text(int status, const std::string& message) {
  OrderedJson body;
  body["type"] = "error";
  body["error"] = {{"type", error_type(status)}, {"message", message}};
  return dump_json(body);
}

}  // namespace

Status messages_error(Status error) {
  std::string field = dotted(error.field);
  if (field.starts_with("tools.")) {
    replace_first(field, ".function.parameters", ".input_schema");
    replace_first(field, ".function.", ".");
  }
  return with_field(std::move(error), std::move(field));
}

std::string messages_error_body(const Status& status) {
  return body_text(messages_status(status.code), client_message(status));
}

HttpResponse messages_denial(int status, const std::string& message) {
  return {.status = status, .body = body_text(status, message)};
}

HttpResponse messages_error_format(const Refusal& refusal) {
  HttpResponse response{.status = messages_status(refusal.status.code),
                        .body = messages_error_body(refusal.status)};
  if (response.status == 429 || response.status == kOverloaded) {
    response.headers.push_back({"Retry-After", "1"});
  }
  return response;
}

}  // namespace tandem
