#include "serve/access.h"

#include <gtest/gtest.h>

#include "serve/fake_exchange.h"
#include "serve/openai_error.h"

namespace tandem {
namespace {

class AccessTest : public testing::Test {
 protected:
  AccessControl* control(std::vector<ApiKey> keys, std::string admin = {}, bool is_local = true) {
    controls_.push_back(std::make_unique<AccessControl>(*ApiKeys::create(std::move(keys), clock_),
                                                        std::move(admin), is_local));
    return controls_.back().get();
  }
  // The status of one request; 200 if it got to the handler, which keeps the exchange.
  int ask(const AccessControl& control, Access access, std::vector<HttpHeader> headers) {
    HttpRequest request;
    request.headers = std::move(headers);
    auto exchange = std::make_shared<FakeExchange>();
    const auto handler = [this](HttpRequest asked, std::shared_ptr<HttpExchange> open) {
      caller_ = asked.caller;
      open_.push_back(std::move(open));
    };
    const std::size_t before = open_.size();
    control.guard(access, handler, [](int status, const std::string& message) {
      return error_response(status, message);
    })(std::move(request), exchange);
    response_ = exchange->response.value_or(HttpResponse{});
    return open_.size() > before ? 200 : response_.status;
  }
  std::string header(std::string_view name) const {
    for (const HttpHeader& one : response_.headers) {
      if (one.name == name) return one.value;
    }
    return {};
  }

  static HttpHeader bearer(const std::string& secret) {
    return {"Authorization", "Bearer " + secret};
  }

  SystemClock clock_;
  Caller caller_;
  std::vector<std::unique_ptr<AccessControl>> controls_;  // outlive the exchanges
  std::vector<std::shared_ptr<HttpExchange>> open_;
  HttpResponse response_;
};

TEST_F(AccessTest, without_keys_everything_is_open_but_the_controls_to_others) {
  const auto* local = control({});
  for (const Access access : {Access::kOpen, Access::kKnown, Access::kGenerate, Access::kAdmin}) {
    EXPECT_EQ(ask(*local, access, {}), 200);
  }
  const auto* open = control({}, {}, false);
  EXPECT_EQ(ask(*open, Access::kGenerate, {}), 200);
  EXPECT_EQ(ask(*open, Access::kAdmin, {}), 403);
  EXPECT_NE(response_.body.find("--admin-api-key"), std::string::npos);
}

TEST_F(AccessTest, a_key_is_needed_where_there_are_keys) {
  const auto* keyed = control({{.name = "team", .secret = "s3", .weight = 2.5}}, {}, false);
  EXPECT_EQ(ask(*keyed, Access::kOpen, {}), 200);
  for (const Access access : {Access::kKnown, Access::kGenerate, Access::kAdmin}) {
    EXPECT_EQ(ask(*keyed, access, {}), 401);
    EXPECT_EQ(header("WWW-Authenticate"), "Bearer");
    EXPECT_EQ(ask(*keyed, access, {bearer("wrong")}), 401);
    EXPECT_EQ(response_.body.find("wrong"), std::string::npos);
    EXPECT_EQ(ask(*keyed, access, {bearer("s3")}), 200);
    EXPECT_EQ(caller_.tenant, 1u);
    EXPECT_EQ(caller_.weight, 2.5);
    EXPECT_EQ(ask(*keyed, access, {{"X-Api-Key", "s3"}}), 200);
  }
}

TEST_F(AccessTest, an_admin_key_is_needed_for_the_controls_and_opens_everything) {
  const auto* keyed = control({{.secret = "user"}}, "admin");
  EXPECT_EQ(ask(*keyed, Access::kAdmin, {}), 401);
  EXPECT_EQ(ask(*keyed, Access::kAdmin, {bearer("user")}), 403);
  for (const Access access : {Access::kKnown, Access::kGenerate, Access::kAdmin}) {
    EXPECT_EQ(ask(*keyed, access, {bearer("admin")}), 200);
    EXPECT_EQ(caller_.tenant, 0u);
  }
  const auto* admin_only = control({}, "admin", false);
  EXPECT_EQ(ask(*admin_only, Access::kGenerate, {}), 200);
  EXPECT_EQ(ask(*admin_only, Access::kAdmin, {}), 401);
}

TEST_F(AccessTest, limits_bind_what_generates_and_say_when_to_come_back) {
  const auto* keyed = control({{.secret = "s", .requests_per_minute = 2, .max_concurrent = 1}});
  EXPECT_EQ(ask(*keyed, Access::kGenerate, {bearer("s")}), 200);
  EXPECT_EQ(ask(*keyed, Access::kGenerate, {bearer("s")}), 429);
  EXPECT_EQ(header("Retry-After"), "1");
  EXPECT_EQ(ask(*keyed, Access::kKnown, {bearer("s")}), 200);
  open_.clear();  // answered
  EXPECT_EQ(ask(*keyed, Access::kGenerate, {bearer("s")}), 200);
  open_.clear();
  EXPECT_EQ(ask(*keyed, Access::kGenerate, {bearer("s")}), 429);
  EXPECT_GT(std::stoi(header("Retry-After")), 20);
  EXPECT_NE(response_.body.find("rate_limit_error"), std::string::npos);
}

}  // namespace
}  // namespace tandem
