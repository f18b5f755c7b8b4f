// Logging to stderr, one line a record: "I 12:03:04.512 message". Thread-safe.
// Never log an error that is also returned.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace tandem {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Records below `level` are dropped. The default is kInfo.
void set_log_level(LogLevel level);

namespace detail {
bool log_enabled(LogLevel level);
void log_write(LogLevel level, std::string_view message);
template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_write(level, fmt::format(format, std::forward<Args>(args)...));
}
}  // namespace detail

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  detail::log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  detail::log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  detail::log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  detail::log(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace tandem
