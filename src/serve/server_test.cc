#include "serve/server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "serve/http_test_client.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

// The bundled model behind a server on a thread of its own. Drains when it dies.
class RunningServer {
 public:
  explicit RunningServer(EngineOptions engine = {}, ServerOptions options = {}) {
    engine.threads = 1;
    model_ = load_served_model({.folder = std::filesystem::path(TANDEM_SOURCE_DIR) / "models/demo",
                                .loading = {},
                                .engine = engine},
                               clock_)
                 .value();
    options.port = 0;
    server_ = Server::start(*model_, options).value();
    thread_ = std::thread([this] { server_->run(); });
  }
  ~RunningServer() { drain(); }

  int port() const { return server_->port(); }
  // Answers end at max_tokens only. Call before the first request.
  void never_stop() { model_->stop_ids.clear(); }
  void start_draining() { server_->drain(); }
  void drain() {
    server_->drain();
    if (thread_.joinable()) thread_.join();
  }

 private:
  SystemClock clock_;
  std::unique_ptr<ServedModel> model_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

std::string post(const std::string& path, const Json& fields) {
  const std::string body = fields.dump();
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      path, body.size(), body);
}

std::string chat(Json fields) {
  if (!fields.contains("messages")) {
    fields["messages"] = {{{"role", "user"}, {"content", "Tell me a short story."}}};
  }
  return post("/v1/chat/completions", fields);
}

struct Answer {
  int status = 0;
  std::string head;
  std::string body;
  Json json() const { return Json::parse(body); }
};

Answer read_answer(Client& client) {
  Answer answer;
  answer.head = client.read_to("\r\n\r\n");
  answer.body = client.read_to_end();
  if (answer.head.size() > 12) answer.status = std::stoi(answer.head.substr(9, 3));
  return answer;
}

Answer ask(const RunningServer& server, const std::string& request) {
  Client client(server.port());
  client.send(request);
  return read_answer(client);
}

// The content that the chunks of a stream's body carry for `choice`.
std::string streamed_content(const std::string& body, int choice = 0) {
  std::string content;
  for (std::size_t at = body.find("data: {"); at != std::string::npos;
       at = body.find("data: {", at + 1)) {
    const Json chunk = Json::parse(body.substr(at + 6, body.find("\n\n", at) - at - 6));
    for (const Json& entry : chunk["choices"]) {
      if (entry["index"] == choice) content += entry["delta"].value("content", "");
    }
  }
  return content;
}

const Json kShort = {
    {"max_tokens", 12}, {"temperature", 1}, {"seed", 3}, {"reasoning_effort", "none"}};

Json with(Json fields, const Json& more) {
  fields.update(more);
  return fields;
}

TEST(Server, answers_whole_and_as_a_stream_alike) {
  RunningServer server;
  const Answer whole = ask(server, chat(with(kShort, {{"n", 2}})));
  ASSERT_EQ(whole.status, 200) << whole.body;
  const Answer stream = ask(server, chat(with(kShort, {{"n", 2}, {"stream", true}})));
  ASSERT_EQ(stream.status, 200);
  EXPECT_NE(stream.head.find("text/event-stream"), std::string::npos);
  EXPECT_NE(stream.body.find("data: [DONE]\n\n"), std::string::npos);
  for (int i = 0; i < 2; ++i) {
    const auto content = whole.json()["choices"][static_cast<std::size_t>(i)]["message"]["content"];
    EXPECT_FALSE(content.get<std::string>().empty());
    EXPECT_EQ(streamed_content(stream.body, i), content);
  }
}

TEST(Server, answers_many_at_once) {
  RunningServer server({.max_running = 3});
  const Json alone = ask(server, chat(kShort)).json()["choices"];
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(chat(kShort));
  }
  for (const auto& client : clients) {
    const Answer answer = read_answer(*client);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.json()["choices"].size(), alone.size());
  }
}

TEST(Server, refuses_with_the_status_and_code_of_the_reason) {
  RunningServer server;
  const auto error = [&](const Json& fields, int status) {
    const Answer answer = ask(server, chat(fields));
    EXPECT_EQ(answer.status, status) << answer.body;
    return answer.json()["error"];
  };
  EXPECT_EQ(error({{"n", 0}}, 400)["param"], "n");
  EXPECT_EQ(error({{"model", "other"}}, 404)["code"], "model_not_found");
  std::string words;
  for (int i = 0; i < 40000; ++i) words += "a ";
  const Json too_long = error({{"messages", {{{"role", "user"}, {"content", words}}}}}, 400);
  EXPECT_EQ(too_long["code"], "context_length_exceeded");
  // Found while rendering, not while parsing.
  EXPECT_EQ(error({{"continue_final_message", true}}, 400)["param"], "messages[0]");
}

// With a server that never stops.
const Json kEndless = {{"max_tokens", 4000}, {"temperature", 0}, {"n", 4}, {"stream", true}};

TEST(Server, a_client_that_leaves_makes_room_for_the_next) {
  RunningServer server({.max_running = 1, .max_queued = 3});
  server.never_stop();
  Client endless(server.port());
  endless.send(chat(kEndless));
  endless.read_to("data: ");
  // One of its four choices runs and three wait.
  EXPECT_EQ(ask(server, chat(kShort)).status, 429);
  endless.leave();
  // The server learns of it in its own time.
  while (ask(server, chat(kShort)).status != 200) {
  }
}

TEST(Server, drains_what_is_running_and_refuses_the_rest) {
  RunningServer server;
  Client running(server.port());
  Client late(server.port());
  running.send(chat(with(kShort, {{"stream", true}})));
  running.read_to("data: ");
  server.start_draining();
  late.send(chat(kShort));
  // Either it was still draining, or had done so already and closed the connection.
  const int status = read_answer(late).status;
  EXPECT_TRUE(status == 503 || status == 0) << status;
  EXPECT_NE(running.read_to_end().find("[DONE]"), std::string::npos);
  server.drain();
}

TEST(Server, draining_cancels_what_outlasts_its_timeout) {
  RunningServer server({.max_running = 1}, {.drain_timeout = std::chrono::milliseconds(1)});
  server.never_stop();
  Client endless(server.port());
  endless.send(chat(kEndless));
  endless.read_to("data: ");
  server.drain();
  EXPECT_EQ(endless.read_to_end().find("[DONE]"), std::string::npos);
}

TEST(Server, lists_its_model_and_health) {
  RunningServer server({}, {.served_name = "lab/tiny"});
  Client client(server.port());
  client.send(get("/health"));
  client.read_to(R"({"status":"ok"})");
  client.send(get("/v1/models/lab%2Ftiny", "Connection: close\r\n"));
  const Json model = read_answer(client).json();
  EXPECT_EQ(model["id"], "lab/tiny");
  EXPECT_EQ(model["cache_grid_tokens"], 16);
  EXPECT_EQ(model["prefill_chunk_tokens"], 512);
}

constexpr const char* kFlush =
    "POST /flush_cache HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

std::int64_t cached_tokens(const Answer& answer) {
  return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::int64_t>();
}

TEST(Server, a_salt_keeps_prompts_apart_and_flushing_forgets_them) {
  RunningServer server;
  const Json salted = with(kShort, {{"cache_salt", "tenant"}});
  EXPECT_EQ(cached_tokens(ask(server, chat(kShort))), 0);
  EXPECT_GT(cached_tokens(ask(server, chat(kShort))), 0);
  EXPECT_EQ(cached_tokens(ask(server, chat(salted))), 0);
  EXPECT_GT(cached_tokens(ask(server, chat(salted))), 0);
  const Answer flushed = ask(server, kFlush);
  EXPECT_EQ(flushed.status, 200);
  EXPECT_GT(flushed.json()["freed_states"], 0);
  EXPECT_GT(flushed.json()["freed_pages"], 0);
  const Json nothing = ask(server, kFlush).json();
  EXPECT_EQ(nothing["freed_states"], 0);
  EXPECT_EQ(nothing["freed_pages"], 0);
  EXPECT_EQ(cached_tokens(ask(server, chat(kShort))), 0);
}

TEST(Server, choices_share_the_prompt_and_count_what_was_cached_once) {
  RunningServer server;
  const Json four = with(kShort, {{"n", 4}});
  const Json cold = ask(server, chat(four)).json()["usage"];
  EXPECT_EQ(cold["prompt_tokens_details"]["cached_tokens"], 0);
  const Json warm = ask(server, chat(four)).json()["usage"];
  const Json streamed_fields = {{"stream", true}, {"stream_options", {{"include_usage", true}}}};
  const std::string body = ask(server, chat(with(four, streamed_fields))).body;
  const std::size_t at = body.rfind("data: {") + 6;
  const Json streamed = Json::parse(body.substr(at, body.find("\n\n", at) - at))["usage"];
  EXPECT_GT(warm["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_LT(warm["prompt_tokens_details"]["cached_tokens"], warm["prompt_tokens"]);
  EXPECT_EQ(streamed["prompt_tokens_details"], warm["prompt_tokens_details"]);
}

TEST(Server, a_scrape_answers_in_prometheus_format_or_says_that_it_cannot) {
  RunningServer server;
  const Answer answer =
      ask(server, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  if (answer.status == 501) {
    EXPECT_EQ(answer.json()["error"]["type"], "not_supported_error");
    return;
  }
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.head.find("text/plain; version=0.0.4"), std::string::npos);
  EXPECT_NE(answer.body.find("# TYPE tandem_requests_running gauge\n"), std::string::npos);
}

// "try again later" would never help them.
TEST(Server, more_answers_than_there_are_places_are_a_mistake_of_the_client) {
  RunningServer server({.max_running = 1, .max_queued = 3});
  const Json five = {"a", "b", "c", "d", "e"};
  const std::vector<std::pair<std::string, std::string>> asked = {
      {chat({{"n", 5}, {"max_tokens", 1}}), "n"},
      {post("/v1/completions", {{"prompt", five}, {"max_tokens", 1}}), "prompt"},
      {post("/v1/completions", {{"prompt", {"a", "b"}}, {"n", 3}, {"max_tokens", 1}}), "n"},
  };
  for (const auto& [request, field] : asked) {
    const Answer answer = ask(server, request);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_EQ(answer.json()["error"]["param"], field);
  }
  const Answer native = ask(server, post("/generate", {{"text", five}}));
  EXPECT_EQ(native.status, 400);
  EXPECT_EQ(native.json()["error"]["param"], "text");
  EXPECT_EQ(ask(server, chat({{"n", 4}, {"max_tokens", 1}})).status, 200);
}

TEST(Server, a_name_that_is_taken_is_refused_where_the_client_gave_it) {
  RunningServer server;
  server.never_stop();
  Client holder(server.port());
  holder.send(chat({{"rid", "a"}, {"stream", true}, {"max_tokens", 100000}}));
  holder.read_to("data:");
  EXPECT_EQ(ask(server, chat({{"rid", "a"}})).json()["error"]["param"], "rid");
  EXPECT_EQ(ask(server, chat({{"request_id", "a"}})).json()["error"]["param"], "request_id");
}

TEST(Server, a_flush_waits_for_as_long_as_it_may_only) {
  RunningServer server;
  for (const char* timeout : {"x", "-1", "61", "1e9", "nan", "1s", ""}) {
    const Answer answer =
        ask(server, fmt::format("POST /flush_cache?timeout={} HTTP/1.1\r\nHost: x\r\n"
                                "Content-Length: 0\r\nConnection: close\r\n\r\n",
                                timeout));
    EXPECT_EQ(answer.status, 400) << timeout;
    EXPECT_EQ(answer.json()["error"]["param"], "timeout");
  }
}

TEST(Server, errors_of_messages_are_spelt_as_its_clients_expect) {
  RunningServer server;
  for (const auto& [request, status] :
       {std::pair{post("/v1/messages/none", Json::object()), 404},
        {std::string("GET /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), 405},
        {post("/v1/messages", Json::object()), 400}}) {
    const Answer answer = ask(server, request);
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.json()["type"], "error") << answer.body;
  }
}

}  // namespace
}  // namespace tandem
