#include "serve/console.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "serve/fake_exchange.h"

namespace tandem {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

HttpResponse get(const std::string& path, std::vector<HttpHeader> headers = {}) {
  const auto exchange = std::make_shared<FakeExchange>();
  Router router(console_routes());
  router({.method = "GET", .path = path, .query = {}, .headers = std::move(headers), .body = {}},
         exchange);
  return exchange->response.value();
}

std::string header(const HttpResponse& response, std::string_view name) {
  for (const HttpHeader& header : response.headers) {
    if (header.name == name) return header.value;
  }
  return {};
}

TEST(Console, carries_the_committed_files_byte_by_byte) {
  const std::string folder = TANDEM_SOURCE_DIR "/ui/dist/";
  std::size_t files = 0;
  for (const EmbeddedFile& file : embedded_console_files()) {
    EXPECT_EQ(file.bytes, read_file(folder + std::string(file.name))) << file.name;
    EXPECT_FALSE(file.bytes.empty()) << file.name;
    ++files;
  }
  EXPECT_EQ(files, 4U);
}

TEST(Console, answers_the_root_with_the_page) {
  const HttpResponse page = get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_NE(page.body.find("<!doctype html>"), std::string::npos);
  EXPECT_EQ(get("/index.html").status, 404);
}

TEST(Console, has_every_file_that_the_page_names) {
  const std::string page = get("/").body;
  for (const std::string attribute : {"src=\"", "href=\""}) {
    for (std::size_t at = page.find(attribute); at != std::string::npos;
         at = page.find(attribute, at + 1)) {
      const std::size_t begin = at + attribute.size();
      const std::string path = page.substr(begin, page.find('"', begin) - begin);
      EXPECT_EQ(get(path).status, 200) << path;
    }
  }
}

TEST(Console, forbids_foreign_scripts_inline_scripts_and_other_hosts) {
  const std::string policy = header(get("/"), "Content-Security-Policy");
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(policy.find("script-src 'self';"), std::string::npos);
  EXPECT_NE(policy.find("connect-src 'self';"), std::string::npos);
  EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(header(get("/"), "X-Content-Type-Options"), "nosniff");
}

TEST(Console, sends_a_file_once_while_it_is_the_same) {
  const std::string tag = header(get("/console.js"), "ETag");
  const HttpResponse again = get("/console.js", {{"If-None-Match", tag}});
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_EQ(header(again, "ETag"), tag);
  EXPECT_EQ(get("/console.js", {{"If-None-Match", "\"another\""}}).status, 200);
  EXPECT_NE(header(get("/console.css"), "ETag"), tag);
}

}  // namespace
}  // namespace tandem
