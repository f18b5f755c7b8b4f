#include "serve/router.h"

#include <gtest/gtest.h>

#include "serve/fake_exchange.h"

namespace tandem {
namespace {

HttpHandler echo(const std::string& name) {
  return [name](HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
    exchange->respond({.body = name + ":" + request.parameter});
  };
}

HttpResponse ask(const std::string& method, const std::string& path,
                 const std::string& content_type = "application/json",
                 const std::string& body = "{}") {
  const Router router({{"GET", "/things", echo("list")},
                       {"POST", "/things", echo("make")},
                       {"GET", "/things/{id}", echo("one")}});
  const auto exchange = std::make_shared<FakeExchange>();
  router({.method = method,
          .path = path,
          .query = "",
          .headers = {{"content-type", content_type},
                      {"Access-Control-Request-Headers", "authorization"}},
          .body = body},
         exchange);
  return exchange->response.value();
}

std::string header(const HttpResponse& response, const std::string& name) {
  for (const HttpHeader& header : response.headers) {
    if (header.name == name) return header.value;
  }
  return {};
}

TEST(Router, errors_are_spelt_as_the_path_wants_them) {
  const Router router({{"GET", "/things", echo("list")}},
                      [](std::string_view path) {
                        return path.starts_with("/other")
               ? [](int status, const std::string&) { return HttpResponse{.status = status, .body = "other"}; }
               : openai_denial;
                      });
  const auto body_of = [&](const char* path, int status) {
    const auto exchange = std::make_shared<FakeExchange>();
    HttpRequest request;
    request.method = "DELETE";
    request.path = path;
    router(std::move(request), exchange);
    EXPECT_EQ(exchange->response->status, status);
    return exchange->response->body;
  };
  EXPECT_EQ(body_of("/other/x", 404), "other");
  EXPECT_NE(body_of("/x", 404).find("no route /x"), std::string::npos);
  EXPECT_NE(body_of("/things", 405).find("DELETE"), std::string::npos);
}

TEST(Router, finds_the_handler_by_method_and_path) {
  EXPECT_EQ(ask("GET", "/things").body, "list:");
  EXPECT_EQ(ask("HEAD", "/things").body, "list:");
  EXPECT_EQ(ask("POST", "/things").body, "make:");
  EXPECT_EQ(ask("GET", "/things/a/b:c").body, "one:a/b:c");
}

TEST(Router, an_unknown_path_is_404_and_a_wrong_method_405_with_what_is_allowed) {
  EXPECT_EQ(ask("GET", "/thing").status, 404);
  EXPECT_EQ(ask("GET", "/things/").status, 404);
  EXPECT_EQ(ask("DELETE", "/things").status, 405);
  EXPECT_EQ(header(ask("DELETE", "/things"), "Allow"), "GET, POST");
  EXPECT_EQ(ask("POST", "/things/a").status, 405);
}

TEST(Router, a_post_takes_json_or_nothing) {
  EXPECT_EQ(ask("POST", "/things", "text/plain").status, 415);
  EXPECT_EQ(ask("POST", "/things", "").status, 415);
  EXPECT_EQ(ask("POST", "/things", "Application/JSON ; charset=utf-8").status, 200);
  EXPECT_EQ(ask("POST", "/things", "", "").status, 200);
  EXPECT_EQ(ask("GET", "/things", "text/plain").status, 200);
}

TEST(Router, tells_browsers_what_is_allowed) {
  const HttpResponse response = ask("OPTIONS", "/things");
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(header(response, "Access-Control-Allow-Methods"), "GET, POST, OPTIONS");
  EXPECT_EQ(header(response, "Access-Control-Allow-Headers"), "authorization");
  EXPECT_EQ(ask("OPTIONS", "/nothing").status, 404);
}

TEST(HttpTarget, splits_and_decodes) {
  EXPECT_EQ(parse_target("/a%2Fb%20c?x=%31").path, "/a/b c");
  EXPECT_EQ(parse_target("/a?x=%31").query, "x=%31");
  EXPECT_EQ(parse_target("/100%").path, "/100%");
  EXPECT_EQ(parse_target("/%zz%2").path, "/%zz%2");
  EXPECT_EQ(parse_target("http://host:1/a?b").path, "/a");
  EXPECT_EQ(parse_target("http://host").path, "/");
  EXPECT_EQ(parse_target("/a?u=http://host/b").path, "/a");
  EXPECT_EQ(parse_target("").path, "");
}

TEST(ByteBudget, counts_what_leases_hold) {
  ByteBudget budget(10);
  {
    ByteBudget::Lease first(budget);
    EXPECT_TRUE(first.grow_to(6));
    EXPECT_TRUE(first.grow_to(4));  // never shrinks
    ByteBudget::Lease second(budget);
    EXPECT_TRUE(second.grow_to(4));
    EXPECT_FALSE(second.grow_to(5));
    ByteBudget::Lease moved = std::move(first);
    EXPECT_EQ(budget.held(), 11u);
  }
  EXPECT_EQ(budget.held(), 0u);
}

}  // namespace
}  // namespace tandem
