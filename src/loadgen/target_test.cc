#include "loadgen/target.h"

#include <gtest/gtest.h>

namespace tandem::loadgen {
namespace {

TEST(TargetUrl, names_host_port_and_path) {
  const Target plain = parse_target_url("http://127.0.0.1:8000").value();
  EXPECT_EQ(plain.host, "127.0.0.1");
  EXPECT_EQ(plain.port, 8000);
  EXPECT_EQ(plain.base_path, "");
  EXPECT_EQ(plain.url(), "http://127.0.0.1:8000");
  EXPECT_EQ(parse_target_url("localhost").value().port, 80);
  EXPECT_EQ(parse_target_url("h:1/proxy/v1/").value().base_path, "/proxy");
  const Target six = parse_target_url("http://[::1]:9/v1").value();
  EXPECT_EQ(six.host, "::1");
  EXPECT_EQ(six.url(), "http://[::1]:9");
}

TEST(TargetUrl, what_cannot_be_asked_is_refused_by_name) {
  for (const char* url : {"", "https://x", "http://", "http://:80", "x:0", "x:65536", "x:80a", "x:",
                          "[::1", "[::1]9", "http://user@x:1", "x/?a=b", "a b", "x\r\nEvil: 1"}) {
    const auto target = parse_target_url(url);
    ASSERT_FALSE(target.has_value()) << url;
    EXPECT_EQ(target.error().code, StatusCode::kInvalidArgument);
    EXPECT_EQ(target.error().message.find(url), 0u) << target.error().message;
  }
}

}  // namespace
}  // namespace tandem::loadgen
