// CHECK and DCHECK: for programmer errors only. User input is answered with a Status (status.h).
#pragma once

#include <fmt/core.h>

#include <string>

namespace tandem::detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);
}  // namespace tandem::detail

// Always on. The message carries the state that explains the failure.
#define CHECK(condition, ...)                                                                     \
  do {                                                                                            \
    if (!(condition)) [[unlikely]]                                                                \
      ::tandem::detail::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)

namespace tandem {
#ifdef NDEBUG
inline constexpr bool kDebugBuild = false;
#else
inline constexpr bool kDebugBuild = true;
#endif
}  // namespace tandem

// Debug builds only; for checks too dear for a hot path.
#ifdef NDEBUG
#define DCHECK(condition, ...) \
  do {                         \
  } while (false)
#else
#define DCHECK(condition, ...) CHECK(condition, __VA_ARGS__)
#endif
