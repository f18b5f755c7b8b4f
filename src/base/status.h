// Status and Result: how every fallible function reports an error.
//
// A function that can fail returns Result<T>; Result<void> where there is no value. `TRY(expr)`
// yields the value or returns the error to the caller. Exceptions of third-party libraries are
// caught where the library is called and become a Status.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace tandem {

// What kind of failure; maps one to one to an HTTP status and to the exit code of a command.
enum class StatusCode {
  kInvalidArgument,    // the caller's input is wrong: 400, exit 2
  kNotFound,           // 404, exit 2
  kPayloadTooLarge,    // 413, exit 2
  kResourceExhausted,  // a bounded queue or a budget is full, try later: 429, exit 1
  kDeadlineExceeded,   // 408, exit 1
  kCancelled,          // the caller gave up: 499, exit 1
  kUnimplemented,      // known and not supported: 501, exit 1
  kUnavailable,        // loading or draining: 503, exit 1
  kInternal,           // our fault: 500, exit 1
};

std::string_view to_string(StatusCode code);
int http_status(StatusCode code);
int exit_code(StatusCode code);

// One line for a person: what is wrong, where, and what was expected.
struct Status {
  StatusCode code = StatusCode::kInternal;
  std::string message;
  // The request field at fault as a path ("messages[2].role"), empty if none applies.
  std::string field = {};

  bool operator==(const Status&) const = default;
};

template <typename T>
using Result = tl::expected<T, Status>;

// Builds the error branch of a Result: `return fail(StatusCode::kNotFound, "no tensor {}", name);`
template <typename... Args>
tl::unexpected<Status> fail(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected(Status{code, fmt::format(format, std::forward<Args>(args)...)});
}

// The commonest failure: bad input.
template <typename... Args>
tl::unexpected<Status> invalid(fmt::format_string<Args...> format, Args&&... args) {
  return fail(StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

inline tl::unexpected<Status> fail(Status status) { return tl::unexpected(std::move(status)); }

namespace detail {
template <typename T>
T take(Result<T>&& result) {
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}
}  // namespace detail

}  // namespace tandem

#define TRY(expr)                                                                \
  ({                                                                             \
    auto try_result_ = (expr);                                                   \
    if (!try_result_) [[unlikely]]                                               \
      return ::tl::unexpected<::tandem::Status>(std::move(try_result_).error()); \
    ::tandem::detail::take(std::move(try_result_));                              \
  })
