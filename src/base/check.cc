#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tandem::detail {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  fmt::print(stderr, "{}:{}: internal error: {} ({})\n", file, line, message, condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace tandem::detail
