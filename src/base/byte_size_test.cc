#include "base/byte_size.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(ByteSizeTest, text_uses_the_largest_unit_that_gives_at_least_one) {
  EXPECT_EQ(byte_text(0), "0 B");
  EXPECT_EQ(byte_text(1023), "1023 B");
  EXPECT_EQ(byte_text(1024), "1.00 KiB");
  EXPECT_EQ(byte_text(27'648), "27.00 KiB");
  EXPECT_EQ(byte_text(56'171'520), "53.57 MiB");
  EXPECT_EQ(byte_text(std::int64_t{80} << 30), "80.00 GiB");
  EXPECT_EQ(byte_text(std::int64_t{3} << 50), "3072.00 TiB");
}

TEST(ByteSizeTest, units_of_1024_and_of_1000) {
  EXPECT_EQ(parse_bytes("16GiB"), std::int64_t{16} << 30);
  EXPECT_EQ(parse_bytes("4096MiB"), std::int64_t{4} << 30);
  EXPECT_EQ(parse_bytes("1 kib"), 1024);
  EXPECT_EQ(parse_bytes("2GB"), 2'000'000'000);
  EXPECT_EQ(parse_bytes("1.5TiB"), std::int64_t{3} << 39);
  EXPECT_EQ(parse_bytes("56171520"), 56'171'520);
  EXPECT_EQ(parse_bytes("7B"), 7);
  EXPECT_EQ(parse_bytes("1.5"), 1);
}

TEST(ByteSizeTest, what_is_no_size_is_refused_with_the_text) {
  for (const char* text : {"", "GiB", "16G", "16XiB", "-1GiB", "0", "0.2", "1e3", "nan", "inf",
                           "16GiBx", "99999999TiB", "1 2", "+5"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, StatusCode::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find(text), std::string::npos);
  }
}

}  // namespace
}  // namespace tandem
