#include "serve/generation_route.h"

#include <gtest/gtest.h>

#include <latch>

#include "base/fake_clock.h"
#include "serve/fake_exchange.h"
#include "serve/openai_error.h"

namespace tandem {
namespace {

class NoWriter final : public AnswerWriter {
 public:
  void begin() override {}
  void on_events(int, const std::vector<OutputEvent>&, std::span<const SampledToken>) override {}
  void on_end(int, const AnswerResult&) override {}
  void complete() override {}
  void fail(const Status&) override {}
};

// The text of a request says what its grammar is like: compiled before, or one of its own. Each is
// refused once it is asked for, so nothing reaches the engine.
class GenerationRouteTest : public testing::Test {
 protected:
  std::shared_ptr<FakeExchange> ask(std::string body) {
    auto exchange = std::make_shared<FakeExchange>();
    HttpRequest request;
    request.body = std::move(body);
    route_(std::move(request), exchange);
    return exchange;
  }
  // Keeps the compiler busy until finish().
  void block_compiler() {
    compilers_->run(WorkerPool::Job([this] { blocked_.wait(); }));
  }
  void finish_parsing() { workers_.reset(); }
  void finish() {
    if (workers_) finish_parsing();
    blocked_.count_down();
    compilers_.reset();
  }

  Accepted<PreparedAnswer> prepare(const HttpRequest& request) {
    PreparedAnswer answer{.generation = {}, .make_writer = [](std::shared_ptr<HttpExchange>) {
                            return std::make_unique<NoWriter>();
                          }};
    const std::string key = request.body == "known" ? kKnown : fmt::format("{}", ++asked_);
    answer.generation.prompts.push_back(
        {.ids = {1}, .answer_stream = {}, .grammar = GrammarSource{key, refusal_}});
    if (request.body == "short")
      answer.generation.deadline = clock_.now() + std::chrono::seconds(5);
    return answer;
  }

  FakeClock clock_;
  const SystemClock engine_clock_;
  const std::unique_ptr<ServedModel> model_ =
      load_served_model({.folder = std::filesystem::path(TANDEM_SOURCE_DIR) / "models/demo",
                         .loading = {},
                         .engine = {.threads = 1}},
                        engine_clock_)
          .value();
  RequestTotals totals_;
  RequestLog log_{clock_};
  RequestRegistry registry_;
  std::latch blocked_{1};
  static constexpr const char* kKnown = "known";
  int asked_ = 0;  // the parsing thread's
  std::atomic<int> compiled_ = 0;
  const std::function<Result<Grammar::Pointer>()> refusal_ = [this]() -> Result<Grammar::Pointer> {
    ++compiled_;
    return invalid("refused");
  };
  std::unique_ptr<WorkerPool> workers_ = std::make_unique<WorkerPool>(1);
  std::unique_ptr<WorkerPool> compilers_ = std::make_unique<WorkerPool>(1);
  const ServeContext context_{.model = *model_,
                              .served_name = "demo",
                              .workers = *workers_,
                              .compilers = *compilers_,
                              .waiting_workers = *workers_,
                              .totals = totals_,
                              .log = log_,
                              .registry = registry_,
                              .clock = clock_};
  const HttpHandler route_ = generation_route(
      context_, [this](const ServeContext&, const HttpRequest& http) { return prepare(http); },
      openai_error_format);
};

TEST_F(GenerationRouteTest, a_known_grammar_does_not_wait_for_those_that_are_being_compiled) {
  block_compiler();
  EXPECT_FALSE(model_->compiled({kKnown, refusal_}));
  const auto slow = ask("new");
  const auto fast = ask("known");
  finish_parsing();
  EXPECT_FALSE(slow->response);
  ASSERT_TRUE(fast->response);
  EXPECT_EQ(fast->response->status, 400);
  finish();
  ASSERT_TRUE(slow->response);
  EXPECT_EQ(slow->response->status, 400);
  EXPECT_EQ(compiled_, 2);
}

TEST_F(GenerationRouteTest, nothing_is_compiled_for_a_client_that_has_left) {
  block_compiler();
  const auto left = ask("new");
  left->gone();
  const auto stays = ask("new");
  finish();
  EXPECT_FALSE(left->response);
  EXPECT_TRUE(stays->response);
  EXPECT_EQ(compiled_, 1);
}

TEST_F(GenerationRouteTest, nothing_is_compiled_for_a_request_whose_time_has_passed) {
  block_compiler();
  const auto late = ask("short");
  finish_parsing();
  clock_.advance(std::chrono::seconds(6));
  finish();
  ASSERT_TRUE(late->response);
  EXPECT_EQ(late->response->status, 408);
  EXPECT_EQ(compiled_, 0);
}

TEST_F(GenerationRouteTest, nothing_is_compiled_while_the_server_drains) {
  block_compiler();
  const auto late = ask("new");
  finish_parsing();
  model_->engine->start_draining();
  finish();
  ASSERT_TRUE(late->response);
  EXPECT_EQ(late->response->status, 503);
  EXPECT_EQ(compiled_, 0);
}

TEST_F(GenerationRouteTest, those_that_wait_to_be_compiled_are_bounded) {
  block_compiler();
  std::vector<std::shared_ptr<FakeExchange>> asked;
  for (int i = 0; i < 100; ++i) asked.push_back(ask("new"));
  finish_parsing();
  const auto refused = std::count_if(asked.begin(), asked.end(),
                                     [](const auto& exchange) { return exchange->response; });
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 100);
  EXPECT_EQ(asked.back()->response->status, 429);
  finish();
  for (const auto& exchange : asked) EXPECT_TRUE(exchange->response);
}

}  // namespace
}  // namespace tandem
