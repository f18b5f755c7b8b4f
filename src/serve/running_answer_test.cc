#include "serve/running_answer.h"

#include <gtest/gtest.h>

#include "serve/fake_exchange.h"

namespace tandem {
namespace {

// Notes the calls it gets.
class NotingWriter final : public AnswerWriter {
 public:
  explicit NotingWriter(std::string& notes) : notes_(notes) {}
  void begin() override { notes_ += "begin "; }
  void on_events(int choice, const std::vector<OutputEvent>&, const SampledToken* token) override {
    notes_ += fmt::format("{}:{} ", choice, token == nullptr ? -1 : token->id);
  }
  void on_end(int choice, const AnswerResult&) override { notes_ += fmt::format("end{} ", choice); }
  void complete() override { notes_ += "complete "; }
  void fail(const Status& status) override { notes_ += "fail:" + status.message + " "; }

 private:
  std::string& notes_;
};

struct Fixture {
  explicit Fixture(int choices)
      : exchange(std::make_shared<FakeExchange>()),
        answer(exchange, std::make_unique<NotingWriter>(notes), choices) {}
  void begin() {
    answer.begin([this] { ++cancelled; });
  }

  std::string notes;
  int cancelled = 0;
  std::shared_ptr<FakeExchange> exchange;
  RunningAnswer answer;
};

SampledToken token(TokenId id) { return {.id = id}; }

AnswerResult failed(const char* why) {
  return {.result = {
              .reason = FinishReason::kError, .status = {StatusCode::kInternal, why}, .usage = {}}};
}

TEST(RunningAnswer, is_complete_when_the_last_choice_has_ended) {
  Fixture f(2);
  f.begin();
  f.answer.on_events(1, {}, token(5));
  f.answer.on_end(1, {});
  f.answer.on_events(0, {}, std::nullopt);
  f.answer.on_end(0, {});
  EXPECT_EQ(f.notes, "begin 1:5 end1 0:-1 end0 complete ");
  EXPECT_EQ(f.cancelled, 0);
}

TEST(RunningAnswer, what_comes_before_the_beginning_waits_for_it_in_order) {
  Fixture f(1);
  f.answer.on_events(0, {}, token(1));
  f.answer.on_events(0, {}, token(2));
  f.answer.on_end(0, {});
  EXPECT_EQ(f.notes, "");
  f.begin();
  EXPECT_EQ(f.notes, "begin 0:1 0:2 end0 complete ");
}

TEST(RunningAnswer, a_refused_choice_refuses_all_and_the_writer_hears_of_none) {
  Fixture f(2);
  f.answer.on_events(0, {}, token(1));
  f.answer.refuse({.status = 429});
  f.answer.on_end(0, {});
  EXPECT_EQ(f.exchange->response->status, 429);
  EXPECT_EQ(f.notes, "");
}

TEST(RunningAnswer, a_choice_that_fails_cancels_the_others_and_ends_the_answer) {
  Fixture f(2);
  f.begin();
  f.answer.on_end(0, failed("it broke"));
  f.answer.on_events(1, {}, token(1));
  f.answer.on_end(1, {});
  EXPECT_EQ(f.notes, "begin fail:it broke ");
  EXPECT_EQ(f.cancelled, 1);
}

TEST(RunningAnswer, a_client_that_leaves_cancels) {
  Fixture f(1);
  f.begin();
  f.exchange->gone();
  EXPECT_EQ(f.cancelled, 1);
}

}  // namespace
}  // namespace tandem
