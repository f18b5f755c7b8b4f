#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tandem {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("tandem", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_pattern("%L %H:%M:%S.%e %v");
    return made;
  }();
  return instance;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

namespace detail {
bool log_enabled(LogLevel level) { return logger().should_log(to_spdlog(level)); }
void log_write(LogLevel level, std::string_view message) {
  logger().log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
}
}  // namespace detail

}  // namespace tandem
