#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace tandem {
namespace {

Result<int> parse_digit(char c) {
  if (c < '0' || c > '9') return invalid("'{}' is not a digit", c);
  return c - '0';
}

Result<int> sum_of_digits(std::string_view text) {
  int sum = 0;
  for (char c : text) sum += TRY(parse_digit(c));
  return sum;
}

Result<void> require_digit(char c) {
  TRY(parse_digit(c));
  return {};
}

Result<std::unique_ptr<int>> boxed(char c) { return std::make_unique<int>(TRY(parse_digit(c))); }

TEST(StatusTest, try_passes_values_through_and_errors_up) {
  EXPECT_EQ(*sum_of_digits("123"), 6);
  auto failed = sum_of_digits("1x3");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, StatusCode::kInvalidArgument);
  EXPECT_EQ(failed.error().message, "'x' is not a digit");
}

TEST(StatusTest, try_works_for_void_and_move_only_values) {
  EXPECT_TRUE(require_digit('4'));
  EXPECT_FALSE(require_digit('z'));
  EXPECT_EQ(**boxed('7'), 7);
}

TEST(StatusTest, every_code_maps_to_http_and_exit) {
  EXPECT_EQ(http_status(StatusCode::kInvalidArgument), 400);
  EXPECT_EQ(exit_code(StatusCode::kInvalidArgument), 2);
  EXPECT_EQ(http_status(StatusCode::kUnavailable), 503);
  EXPECT_EQ(exit_code(StatusCode::kInternal), 1);
  EXPECT_EQ(to_string(StatusCode::kUnimplemented), "not supported");
}

}  // namespace
}  // namespace tandem
