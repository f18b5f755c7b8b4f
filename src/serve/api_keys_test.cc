#include "serve/api_keys.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/fake_clock.h"
#include "support/temp_folder.h"

namespace tandem {
namespace {

class ApiKeysTest : public testing::Test {
 protected:
  std::unique_ptr<ApiKeys> keys(std::vector<ApiKey> of) {
    auto made = ApiKeys::create(std::move(of), clock_);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }
  std::string refusal(std::vector<ApiKey> of) {
    return ApiKeys::create(std::move(of), clock_).error().message;
  }
  Result<std::vector<ApiKey>> read(const std::string& text) {
    const auto file = folder_ / "api_keys_test.txt";
    std::ofstream(file) << text;
    return read_api_keys(file);
  }
  FakeClock clock_;
  TempFolder folder_;
};

TEST_F(ApiKeysTest, a_secret_is_found_whole_only) {
  const auto ring = keys({{.name = "a", .secret = "alpha"}, {.secret = "beta"}});
  EXPECT_EQ(ring->find("alpha"), 1u);
  EXPECT_EQ(ring->find("beta"), 2u);
  EXPECT_EQ(ring->at(2).name, "2");
  for (const char* wrong : {"", "alph", "alphaa", "ALPHA", "beta "})
    EXPECT_FALSE(ring->find(wrong)) << wrong;
  EXPECT_TRUE(keys({})->empty());
}

TEST_F(ApiKeysTest, a_minutes_worth_may_come_at_once_and_then_as_time_passes) {
  const auto ring = keys({{.secret = "s", .requests_per_minute = 3}});
  for (int i = 0; i < 3; ++i) EXPECT_NE(ring->admit(1).lease, nullptr) << i;
  const auto refused = ring->admit(1);
  EXPECT_EQ(refused.lease, nullptr);
  EXPECT_EQ(refused.retry_after_s, 20);
  EXPECT_NE(refused.reason.find("3 requests a minute"), std::string::npos);
  clock_.advance(std::chrono::duration<double>(19.5));
  EXPECT_EQ(ring->admit(1).lease, nullptr);
  clock_.advance(std::chrono::duration<double>(0.6));
  EXPECT_NE(ring->admit(1).lease, nullptr);
  EXPECT_EQ(ring->admit(1).lease, nullptr);
  clock_.advance(std::chrono::duration<double>(1e6));  // saved up for a minute, no longer
  for (int i = 0; i < 3; ++i) EXPECT_NE(ring->admit(1).lease, nullptr) << i;
  EXPECT_EQ(ring->admit(1).lease, nullptr);
}

TEST_F(ApiKeysTest, requests_at_a_time_count_until_they_end_and_by_key) {
  const auto ring =
      keys({{.name = "a", .secret = "a", .max_concurrent = 2}, {.name = "b", .secret = "b"}});
  auto first = ring->admit(1);
  const auto second = ring->admit(1);
  EXPECT_NE(second.lease, nullptr);
  const auto refused = ring->admit(1);
  EXPECT_EQ(refused.lease, nullptr);
  EXPECT_GE(refused.retry_after_s, 1);
  EXPECT_NE(ring->admit(2).lease, nullptr);
  first.lease = nullptr;
  EXPECT_NE(ring->admit(1).lease, nullptr);
}

TEST_F(ApiKeysTest, keys_that_cannot_be_told_apart_are_refused_without_their_secrets) {
  EXPECT_EQ(refusal({{.name = "a", .secret = ""}}), "key 'a' is empty");
  EXPECT_EQ(refusal({{.secret = "x1"}, {.secret = "x1"}}), "keys '1' and '2' are the same");
  EXPECT_EQ(refusal({{.name = "a", .secret = "x"}, {.name = "a", .secret = "y"}}),
            "two keys have the name 'a'");
  EXPECT_EQ(refusal({{.name = "a", .secret = "x", .weight = 0}}),
            "key 'a': weight: expected more than 0, got 0");
}

TEST_F(ApiKeysTest, files_of_json_and_of_lines) {
  const auto json = read(R"([{"key": "k1"}, {"key": "k2", "name": "team", "weight": 2.5,
                            "requests_per_minute": 60, "max_concurrent": 4}])");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ((*json)[0].secret, "k1");
  EXPECT_EQ((*json)[1].name, "team");
  EXPECT_EQ((*json)[1].weight, 2.5);
  EXPECT_EQ((*json)[1].requests_per_minute, 60);
  EXPECT_EQ((*json)[1].max_concurrent, 4);
  const auto lines = read("# keys\nplain\n\n  team   secret \r\n");
  ASSERT_TRUE(lines) << lines.error().message;
  ASSERT_EQ(lines->size(), 2u);
  EXPECT_EQ((*lines)[0].secret, "plain");
  EXPECT_EQ((*lines)[1].name, "team");
  EXPECT_EQ((*lines)[1].secret, "secret");
}

TEST_F(ApiKeysTest, bad_files_are_named_and_secrets_are_not_shown) {
  for (const char* text :
       {"", "# nothing\n", "[]", "[{}]", "[5]", R"([{"key": 5}])",
        R"([{"key": "topsecret", "weight": -1}])", R"([{"key": "topsecret", "max_concurrent": 0}])",
        "a b topsecret", "[{\"key\": \"topsecret\""}) {
    const auto keys = read(text);
    ASSERT_FALSE(keys) << text;
    EXPECT_NE(keys.error().message.find("api_keys_test.txt"), std::string::npos);
    EXPECT_EQ(keys.error().message.find("topsecret"), std::string::npos) << keys.error().message;
  }
  EXPECT_NE(read_api_keys("/nowhere/keys").error().message.find("/nowhere/keys"),
            std::string::npos);
}

TEST(SecretOf, reads_both_headers) {
  EXPECT_EQ(secret_of("Bearer abc", ""), "abc");
  EXPECT_EQ(secret_of("bearer   abc", "other"), "abc");
  EXPECT_EQ(secret_of("", "xyz"), "xyz");
  EXPECT_EQ(secret_of("Basic abc", "xyz"), "xyz");
  EXPECT_EQ(secret_of("Bearer ", ""), "");
  EXPECT_EQ(secret_of("", ""), "");
}

}  // namespace
}  // namespace tandem
