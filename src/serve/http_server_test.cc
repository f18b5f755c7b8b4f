#include "serve/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "serve/http_test_client.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;

// A server on a thread of its own that drains when it dies.
class Running {
 public:
  explicit Running(HttpHandler handler, HttpLimits limits = {})
      : server_(HttpServer::listen({.host = "127.0.0.1",
                                    .port = 0,
                                    .limits = limits,
                                    .headers = {{"X-Common", "yes"}},
                                    .refusal =
                                        [](int status, const std::string& message) {
                                          return HttpResponse{.status = status,
                                                              .content_type = "text/plain",
                                                              .body = message};
                                        }},
                                   std::move(handler))
                    .value()),
        port(server_->port()),
        thread_([this] { server_->run(); }) {}
  ~Running() { stop(milliseconds(0)); }

  void drain(milliseconds limit) { server_->drain(limit); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  void stop(milliseconds limit) {
    drain(limit);
    join();
  }

 private:
  std::unique_ptr<HttpServer> server_;

 public:
  const int port;

 private:
  std::thread thread_;
};

void echo(HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) {
  exchange->respond({.content_type = "text/plain",
                     .body = request.method + " " + request.path + " " + request.body});
}

TEST(HttpServer, answers_several_requests_of_one_connection) {
  Running server(echo);
  Client client(server.port);
  client.send(get("/a"));
  EXPECT_EQ(client.read_to("GET /a "),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n"
            "X-Common: yes\r\n\r\nGET /a ");
  client.send(post("body"));
  EXPECT_NE(client.read_to("POST /p body").find("200 OK"), std::string::npos);
}

TEST(HttpServer, answers_requests_sent_ahead_in_their_order) {
  Running server(echo);
  Client client(server.port);
  client.send(get("/1") + post("two") + get("/3", "Connection: close\r\n"));
  const std::string all = client.read_to_end();
  EXPECT_LT(all.find("GET /1"), all.find("POST /p two"));
  EXPECT_LT(all.find("POST /p two"), all.find("GET /3"));
  EXPECT_NE(all.find("Connection: close"), std::string::npos);
}

TEST(HttpServer, takes_bodies_in_chunks_byte_by_byte_and_after_asking) {
  Running server(echo);
  Client client(server.port);
  const std::string chunked =
      "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  for (const char c : chunked) client.send(std::string(1, c));
  EXPECT_NE(client.read_to("POST /p abcde").find("200 OK"), std::string::npos);
  client.send("POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_NE(client.read_to("\r\n\r\n").find("100 Continue"), std::string::npos);
  client.send("hi");
  EXPECT_NE(client.read_to("POST /p hi").find("200 OK"), std::string::npos);
}

TEST(HttpServer, head_has_no_body) {
  Running server(echo);
  Client client(server.port);
  client.send("HEAD /h HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answer = client.read_to_end();
  EXPECT_NE(answer.find("Content-Length: 8"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\n"));
}

TEST(HttpServer, refuses_what_is_too_large_or_no_http) {
  Running server(echo, {.max_header_bytes = 1000, .max_body_bytes = 10});
  const auto answer = [&](const std::string& request) {
    Client client(server.port);
    client.send(request);
    return client.read_to("\r\n\r\n");
  };
  EXPECT_TRUE(answer(post("0123456789")).starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(answer(post("0123456789a")).starts_with("HTTP/1.1 413"));
  EXPECT_TRUE(answer("POST /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n")
                  .starts_with("HTTP/1.1 413"));
  EXPECT_TRUE(
      answer(get("/", "X: " + std::string(1000, 'x') + "\r\n")).starts_with("HTTP/1.1 431"));
  EXPECT_TRUE(answer("rubbish\r\n\r\n").starts_with("HTTP/1.1 400"));
  EXPECT_TRUE(answer("POST /p HTTP/1.1\r\nContent-Length: -1\r\n\r\n").starts_with("HTTP/1.1 400"));
}

TEST(HttpServer, a_client_that_sends_its_whole_refused_body_still_gets_the_refusal) {
  Running server(echo, {.max_body_bytes = 10});
  Client client(server.port);
  client.send(post(std::string(8 << 20, 'x')));
  EXPECT_TRUE(client.read_to("bytes").starts_with("HTTP/1.1 413"));
}

TEST(HttpServer, bodies_of_all_requests_share_a_budget) {
  Running server(echo, {.max_body_bytes = 1000, .max_body_bytes_together = 1500});
  Client waiting(server.port);
  waiting.send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" +
               std::string(999, 'x'));
  // Its bytes count once they have arrived, which nobody tells: ask until they have.
  for (;;) {
    Client other(server.port);
    other.send(post(std::string(900, 'y')));
    if (other.read_to("\r\n\r\n").starts_with("HTTP/1.1 503")) break;
  }
  waiting.send("x");
  EXPECT_TRUE(waiting.read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
  Client last(server.port);
  last.send(post(std::string(900, 'y')));
  EXPECT_TRUE(last.read_to("\r\n\r\n").starts_with("HTTP/1.1 200"));
}

TEST(HttpServer, streams_in_chunks_or_to_the_end_of_the_connection) {
  Running server([](HttpRequest, const std::shared_ptr<HttpExchange>& exchange) {
    exchange->start_stream({.content_type = "text/event-stream"}, "");
    exchange->write("one");
    exchange->write("two");
    exchange->finish();
  });
  Client client(server.port);
  client.send(get("/"));
  const std::string chunked = client.read_to("0\r\n\r\n");
  EXPECT_NE(chunked.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_TRUE(chunked.ends_with("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")) << chunked;
  client.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(client.read_to_end().ends_with("\r\n\r\nonetwo"));
}

TEST(HttpServer, writes_the_idle_text_while_nothing_else_is_written) {
  std::shared_ptr<HttpExchange> open;
  Running server(
      [&open](HttpRequest, std::shared_ptr<HttpExchange> exchange) {
        exchange->start_stream({}, ": ping\n\n");
        open = std::move(exchange);
      },
      {.idle_text_interval = milliseconds(1)});
  Client client(server.port);
  client.send(get("/"));
  EXPECT_NE(client.read_to("ping").find("200 OK"), std::string::npos);
  client.read_to("ping");
}

TEST(HttpServer, a_client_that_leaves_is_noticed_while_it_waits_and_while_it_reads) {
  for (const bool stream : {false, true}) {
    std::promise<void> asked;
    std::promise<void> gone;
    std::shared_ptr<HttpExchange> open;
    Running server([&](HttpRequest, std::shared_ptr<HttpExchange> exchange) {
      exchange->on_gone([&] { gone.set_value(); });
      if (stream) exchange->start_stream({}, "");
      open = std::move(exchange);
      asked.set_value();
    });
    Client client(server.port);
    client.send(get("/"));
    asked.get_future().wait();
    client.leave();
    EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  }
}

TEST(HttpServer, the_leaving_of_a_client_that_has_its_answer_concerns_nobody) {
  std::atomic<bool> gone = false;
  {
    Running server([&](HttpRequest, const std::shared_ptr<HttpExchange>& exchange) {
      exchange->on_gone([&] { gone = true; });
      exchange->respond({.body = "done"});
    });
    Client client(server.port);
    client.send(get("/"));
    client.read_to("done");
    client.leave();
  }
  EXPECT_FALSE(gone);
}

TEST(HttpServer, who_asks_after_the_client_has_left_is_told_at_once) {
  std::promise<std::shared_ptr<HttpExchange>> asked;
  std::promise<void> told;
  Running server([&](HttpRequest, std::shared_ptr<HttpExchange> exchange) {
    asked.set_value(std::move(exchange));
  });
  Client client(server.port);
  client.send(get("/"));
  const auto exchange = asked.get_future().get();
  client.leave();
  server.stop(milliseconds(0));
  exchange->on_gone([&] { told.set_value(); });
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
  exchange->respond({});  // goes nowhere
}

TEST(HttpServer, a_stream_that_nobody_reads_is_cut_at_its_limit) {
  std::promise<void> gone;
  std::function<void()> write_more;
  Running server(
      [&](HttpRequest, std::shared_ptr<HttpExchange> exchange) {
        auto alive = std::make_shared<bool>(true);
        exchange->on_gone([&, alive] {
          *alive = false;
          gone.set_value();
        });
        exchange->start_stream({}, "");
        write_more = [&write_more, exchange, alive] {
          if (!*alive) return;
          exchange->write(std::string(64 << 10, 'x'));
          exchange->post(write_more);
        };
        exchange->post(write_more);
      },
      {.max_unread_bytes = 1 << 20});
  Client client(server.port, 4096);
  client.send(get("/"));
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  server.stop(milliseconds(0));
  write_more = nullptr;
}

TEST(HttpServer, a_client_that_takes_nothing_of_its_answer_is_dropped) {
  std::promise<void> asked;
  Running server(
      [&](HttpRequest, const std::shared_ptr<HttpExchange>& exchange) {
        exchange->respond({.body = std::string(64 << 20, 'x')});
        asked.set_value();
      },
      {.write_timeout = milliseconds(20)});
  Client client(server.port, 4096);
  client.send(get("/"));
  asked.get_future().wait();
  server.stop(std::chrono::minutes(60));  // returns once the answer is written or given up
}

TEST(HttpServer, slow_requests_are_answered_with_408_and_idle_connections_closed) {
  Running header(echo, {.header_timeout = milliseconds(10)});
  Client slow_header(header.port);
  slow_header.send("GET / HTTP/1.1\r\n");
  EXPECT_TRUE(slow_header.read_to_end().starts_with("HTTP/1.1 408"));

  Running body(echo, {.body_timeout = milliseconds(10)});
  Client slow_body(body.port);
  slow_body.send("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_TRUE(slow_body.read_to_end().starts_with("HTTP/1.1 408"));

  Running idle(echo, {.idle_timeout = milliseconds(10)});
  Client silent(idle.port);
  EXPECT_EQ(silent.read_to_end(), "");
}

TEST(HttpServer, more_connections_than_allowed_wait_their_turn) {
  Running server(echo, {.max_connections = 1});
  auto first = std::make_unique<Client>(server.port);
  first->send(get("/1"));
  first->read_to("GET /1");
  Client second(server.port);
  second.send(get("/2"));
  first.reset();
  EXPECT_NE(second.read_to("GET /2").find("200 OK"), std::string::npos);
}

TEST(HttpServer, draining_waits_for_answers_and_ends_their_connections) {
  std::promise<std::shared_ptr<HttpExchange>> asked;
  std::promise<void> refused;
  std::atomic<int> requests = 0;
  Running server([&](HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
    if (requests++ == 0) return asked.set_value(std::move(exchange));
    echo(std::move(request), exchange);
  });
  Client client(server.port);
  client.send(get("/"));
  const auto exchange = asked.get_future().get();
  server.drain(std::chrono::seconds(60));
  // Still reachable, as for health checks.
  Client other(server.port);
  other.send(get("/late"));
  EXPECT_NE(other.read_to_end().find("GET /late"), std::string::npos);
  exchange->post([exchange] { exchange->respond({.body = "at last"}); });
  const std::string answer = client.read_to_end();
  EXPECT_TRUE(answer.ends_with("at last")) << answer;
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  server.join();
}

TEST(HttpServer, draining_cuts_off_what_takes_longer_than_its_limit) {
  std::promise<void> gone;
  std::promise<void> asked;
  std::shared_ptr<HttpExchange> open;
  Running server([&](HttpRequest, std::shared_ptr<HttpExchange> exchange) {
    exchange->on_gone([&] { gone.set_value(); });
    open = std::move(exchange);
    asked.set_value();
  });
  Client client(server.port);
  client.send(get("/"));
  asked.get_future().wait();
  server.stop(milliseconds(1));
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(HttpServer, names_an_address_that_cannot_be_listened_on) {
  const auto listen = [](const std::string& host, int port) {
    return HttpServer::listen({.host = host, .port = port, .refusal = {}}, echo);
  };
  const auto first = listen("127.0.0.1", 0);
  ASSERT_TRUE(first);
  const auto second = listen("127.0.0.1", (*first)->port());
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("127.0.0.1"), std::string::npos);
  EXPECT_FALSE(listen("192.0.2.1", 0));  // of no machine
}

}  // namespace
}  // namespace tandem
