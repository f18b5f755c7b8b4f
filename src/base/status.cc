#include "base/status.h"

#include "base/check.h"

namespace tandem {
namespace {

struct CodeInfo {
  StatusCode code;
  std::string_view name;
  int http;
  int exit;
};

constexpr CodeInfo kCodes[] = {
    {StatusCode::kInvalidArgument, "invalid argument", 400, 2},
    {StatusCode::kNotFound, "not found", 404, 2},
    {StatusCode::kPayloadTooLarge, "payload too large", 413, 2},
    {StatusCode::kResourceExhausted, "resource exhausted", 429, 1},
    {StatusCode::kDeadlineExceeded, "deadline exceeded", 408, 1},
    {StatusCode::kCancelled, "cancelled", 499, 1},
    {StatusCode::kUnimplemented, "not supported", 501, 1},
    {StatusCode::kUnavailable, "unavailable", 503, 1},
    {StatusCode::kInternal, "internal error", 500, 1},
};

const CodeInfo& info(StatusCode code) {
  for (const CodeInfo& entry : kCodes) {
    if (entry.code == code) return entry;
  }
  CHECK(false, "status code {} has no entry", static_cast<int>(code));
}

}  // namespace

std::string_view to_string(StatusCode code) { return info(code).name; }
int http_status(StatusCode code) { return info(code).http; }
int exit_code(StatusCode code) { return info(code).exit; }

}  // namespace tandem
