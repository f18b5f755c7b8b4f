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
  void on_events(int choice, const std::vector<OutputEvent>& events,
                 std::span<const SampledToken> tokens) override {
    notes_ += fmt::format("{}:", choice);
    for (const OutputEvent& event : events) notes_ += fmt::format("'{}'", event.text);
    for (const SampledToken& token : tokens) notes_ += fmt::format("{} ", token.id);
    if (tokens.empty()) notes_ += "- ";
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
        owned(std::make_shared<RunningAnswer>(exchange, std::make_unique<NotingWriter>(notes),
                                              choices)),
        answer(*owned) {}
  void begin() {
    answer.begin([this] { ++cancelled; });
  }

  std::string notes;
  int cancelled = 0;
  std::shared_ptr<FakeExchange> exchange;
  std::shared_ptr<RunningAnswer> owned;
  RunningAnswer& answer;
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
  EXPECT_EQ(f.notes, "begin 1:5 end1 0:- end0 complete ");
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

std::vector<OutputEvent> content(const char* text) {
  return {{.kind = OutputEvent::Kind::kContent, .text = text}};
}

TEST(RunningAnswer, a_client_that_is_behind_gets_the_rest_when_it_has_caught_up) {
  Fixture f(1);
  f.begin();
  f.answer.on_events(0, content("a"), token(1));
  f.exchange->behind = true;
  f.answer.on_events(0, content("b"), token(2));
  f.answer.on_events(0, content("c"), token(3));
  EXPECT_EQ(f.notes, "begin 0:'a'1 ");
  f.exchange->behind = false;
  f.exchange->caught_up();
  EXPECT_EQ(f.notes, "begin 0:'a'1 0:'bc'2 3 ");
  f.answer.on_events(0, content("d"), token(4));
  f.answer.on_end(0, {});
  EXPECT_EQ(f.notes, "begin 0:'a'1 0:'bc'2 3 0:'d'4 end0 complete ");
}

TEST(RunningAnswer, the_end_of_a_choice_waits_for_nobody) {
  Fixture f(2);
  f.begin();
  f.exchange->behind = true;
  f.answer.on_events(1, content("b"), token(2));
  f.answer.on_events(0, content("a"), token(1));
  f.answer.on_end(1, {});
  f.answer.on_end(0, failed("it broke"));
  EXPECT_EQ(f.notes, "begin 0:'a'1 1:'b'2 end1 fail:it broke ");
  f.exchange->caught_up();
  EXPECT_EQ(f.notes, "begin 0:'a'1 1:'b'2 end1 fail:it broke ");
}

TEST(RunningAnswer, what_is_held_back_is_bounded) {
  Fixture f(1);
  f.begin();
  f.exchange->behind = true;
  const std::string text(1000, 'x');
  int calls = 0;
  while (f.notes == "begin " && ++calls < 1000)
    f.answer.on_events(0, content(text.c_str()), token(1));
  EXPECT_GT(calls, 10);
  EXPECT_LT(calls, 100);
}

TEST(RunningAnswer, a_client_may_catch_up_when_the_answer_is_gone) {
  Fixture f(1);
  f.begin();
  f.owned.reset();
  f.exchange->caught_up();
  EXPECT_EQ(f.notes, "begin ");
}

TEST(RunningAnswer, a_client_that_leaves_cancels) {
  Fixture f(1);
  f.begin();
  f.exchange->gone();
  EXPECT_EQ(f.cancelled, 1);
}

}  // namespace
}  // namespace tandem
