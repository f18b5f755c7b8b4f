#include "serve/idempotency.h"

#include <gtest/gtest.h>

#include "serve/fake_exchange.h"

namespace tandem {
namespace {

using Claim = IdempotencyStore::Claim;

// One client's request: the exchange it waits on, and that which its work answers.
struct Asker {
  Asker(IdempotencyStore& store, const std::string& key, std::string_view body)
      : client(std::make_shared<FakeExchange>()), work(client) {
    claim = store.claim(key, body, work);
  }
  void answer(int status, std::string body) {
    work->respond({.status = status, .body = std::move(body)});
  }
  std::string answered() const { return client->response ? client->response->body : "nothing"; }

  std::shared_ptr<FakeExchange> client;
  std::shared_ptr<HttpExchange> work;
  Claim claim = Claim::kFirst;
};

std::shared_ptr<IdempotencyStore> store(IdempotencyStore::Limits limits = {}) {
  return std::make_shared<IdempotencyStore>(limits);
}

TEST(IdempotencyStore, a_repeat_gets_the_bytes_of_the_first_early_or_late) {
  const auto kept = store();
  Asker first(*kept, "k", "body");
  Asker early(*kept, "k", "body");
  EXPECT_EQ(first.claim, Claim::kFirst);
  EXPECT_EQ(early.claim, Claim::kRepeated);
  EXPECT_EQ(early.answered(), "nothing");
  first.answer(200, "yes");
  Asker late(*kept, "k", "body");
  EXPECT_EQ(late.claim, Claim::kRepeated);
  for (const Asker* asker : {&first, &early, &late}) EXPECT_EQ(asker->answered(), "yes");
}

TEST(IdempotencyStore, a_key_belongs_to_one_body) {
  const auto kept = store();
  Asker first(*kept, "k", "body");
  EXPECT_EQ(Asker(*kept, "k", "other").claim, Claim::kOther);
  EXPECT_EQ(Asker(*kept, "k2", "other").claim, Claim::kFirst);
}

TEST(IdempotencyStore, a_failure_is_told_to_who_waits_and_forgotten) {
  const auto kept = store();
  Asker first(*kept, "k", "body");
  Asker waiting(*kept, "k", "body");
  first.answer(429, "full");
  EXPECT_EQ(waiting.answered(), "full");
  EXPECT_EQ(Asker(*kept, "k", "body").claim, Claim::kFirst);
}

TEST(IdempotencyStore, who_waits_for_work_that_died_may_try_again) {
  const auto kept = store();
  auto first = std::make_unique<Asker>(*kept, "k", "body");
  Asker waiting(*kept, "k", "body");
  first.reset();
  EXPECT_EQ(waiting.client->response->status, 503);
}

TEST(IdempotencyStore, work_goes_on_when_its_client_leaves) {
  const auto kept = store();
  Asker first(*kept, "k", "body");
  bool cancelled = false;
  first.work->on_gone([&] { cancelled = true; });
  EXPECT_FALSE(first.client->gone);
  EXPECT_FALSE(cancelled);
}

TEST(IdempotencyStore, the_oldest_answers_make_room) {
  for (const IdempotencyStore::Limits limits :
       {IdempotencyStore::Limits{.answers = 2}, IdempotencyStore::Limits{.bytes = 12}}) {
    const auto kept = store(limits);
    for (const char* key : {"a", "b", "c"}) Asker(*kept, key, "12").answer(200, "345");
    EXPECT_EQ(Asker(*kept, "a", "12").claim, Claim::kFirst);
    EXPECT_EQ(Asker(*kept, "c", "12").claim, Claim::kRepeated);
  }
}

TEST(IdempotencyStore, a_stream_is_not_kept_and_ends_with_its_client) {
  const auto kept = store();
  Asker first(*kept, "k", "body");
  Asker waiting(*kept, "k", "body");
  bool cancelled = false;
  first.work->on_gone([&] { cancelled = true; });
  first.work->start_stream({}, "");
  EXPECT_EQ(waiting.client->response->status, 400);
  first.client->gone();
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(Asker(*kept, "k", "body").claim, Claim::kFirst);
}

TEST(Idempotent, routes_and_credentials_have_keys_of_their_own) {
  int handled = 0;
  const HttpHandler handler =
      idempotent(store(), [&](HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
        ++handled;
        exchange->respond({.body = request.body + std::to_string(handled)});
      });
  const auto ask = [&](std::string path, std::string secret, std::string key) {
    const auto exchange = std::make_shared<FakeExchange>();
    std::vector<HttpHeader> headers = {{"x-api-key", std::move(secret)}};
    if (!key.empty()) headers.push_back({"idempotency-key", std::move(key)});
    handler({.method = "POST",
             .path = std::move(path),
             .query = "",
             .headers = std::move(headers),
             .body = "b"},
            exchange);
    return exchange->response->body;
  };
  EXPECT_EQ(ask("/a", "s", "k"), "b1");
  EXPECT_EQ(ask("/a", "s", "k"), "b1");
  EXPECT_EQ(ask("/b", "s", "k"), "b2");
  EXPECT_EQ(ask("/a", "t", "k"), "b3");
  EXPECT_EQ(ask("/a", "s", ""), "b4");
  EXPECT_EQ(ask("/a", "s", ""), "b5");
}

}  // namespace
}  // namespace tandem
