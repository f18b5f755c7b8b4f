// The loop with an executor and a listener that do what engines' do at the worst moment.
#include "schedule/step_loop.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "schedule/planner_testing.h"

namespace tandem {
namespace {

std::vector<TokenId> text(std::int64_t tokens, TokenId first = 0) {
  std::vector<TokenId> ids(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = first + static_cast<TokenId>(i);
  return ids;
}

// Runs plans by the fake, keeps a log, and may spoil results.
class LoggingExecutor final : public Executor {
 public:
  explicit LoggingExecutor(Executor& inner) : inner_(inner) {}

  void launch(const StepPlan& plan) override {
    for (const StepRow& row : plan.rows) {
      EXPECT_FALSE(forgotten.contains(row.request)) << "launched after it was forgotten";
    }
    launched.push_back(&plan);
    most_in_flight = std::max(most_in_flight, launched.size());
    inner_.launch(plan);
  }
  StepResult wait() override {
    StepResult result = inner_.wait();
    if (spoil) spoil(*launched.front(), result);
    launched.erase(launched.begin());
    ++steps;
    return result;
  }
  void forget(RequestId request) override {
    EXPECT_TRUE(forgotten.insert(request).second) << "forgotten twice";
    inner_.forget(request);
  }

  std::function<void(const StepPlan&, StepResult&)> spoil;
  std::set<RequestId> forgotten;
  std::vector<const StepPlan*> launched;
  std::size_t most_in_flight = 0;
  int steps = 0;

 private:
  Executor& inner_;
};

struct Fixture final : SchedulerFixture {
  explicit Fixture(LoopMode mode) : SchedulerFixture({.mode = mode}), logging(*executor) {
    loop = std::make_unique<StepLoop>(*planner, logging, *this, mode);
  }
  Verdict on_token(RequestId id, const SampledToken& token) override {
    const Verdict verdict = SchedulerFixture::on_token(id, token);
    return heard ? heard(id) : verdict;
  }
  void on_end(const EndedRequest& ended) override {
    EXPECT_TRUE(logging.forgotten.contains(ended.id));
    EXPECT_FALSE(planner->contains(ended.id));
    SchedulerFixture::on_end(ended);
    if (at_end) at_end(ended.id);
  }
  void expect_nothing_left() {
    EXPECT_EQ(planner->size(), 0u);
    EXPECT_EQ(planner->steps_in_flight(), 0u);
    EXPECT_EQ(cache->usage().locks, 0);
    EXPECT_EQ(executor->faults(), 0);
    const Result<void> sound = planner->integrity_check();
    EXPECT_TRUE(sound) << sound.error().message;
    for (const auto& [id, answer] : answers) EXPECT_EQ(answer.ends, 1) << id.value;
  }

  LoggingExecutor logging;
  std::function<Verdict(RequestId)> heard;
  std::function<void(RequestId)> at_end;
};

class StepLoopTest : public testing::TestWithParam<LoopMode> {};

TEST_P(StepLoopTest, has_nothing_to_do_without_requests) {
  Fixture at(GetParam());
  EXPECT_FALSE(at.loop->turn());
  at.loop->drain();
  at.loop->cancel(RequestId{7});
  EXPECT_EQ(at.logging.steps, 0);
}

TEST_P(StepLoopTest, runs_as_many_steps_ahead_as_its_mode_says) {
  Fixture at(GetParam());
  const RequestId id = at.add(text(20), 9);
  at.run();
  EXPECT_EQ(at.answers[id].tokens, FakeExecutor::answer(text(20), 9));
  EXPECT_EQ(at.logging.most_in_flight, GetParam() == LoopMode::kSimple ? 1u : 2u);
  // One for the prompt and the first token, eight for the others; none beyond the last, which is
  // known beforehand.
  EXPECT_EQ(at.logging.steps, 9);
  at.expect_nothing_left();
}

TEST_P(StepLoopTest, a_stop_wastes_at_most_one_row) {
  Fixture at(GetParam());
  const RequestId id = at.add(text(20), 50);
  at.heard = [&](RequestId) {
    return at.answers[id].tokens.size() < 5 ? StepListener::Verdict::kContinue
                                            : StepListener::Verdict::kStop;
  };
  at.run();
  EXPECT_EQ(at.answers[id].tokens, FakeExecutor::answer(text(20), 5));
  EXPECT_EQ(at.answers[id].ended.reason, FinishReason::kStop);
  EXPECT_EQ(at.planner->counters().wasted_rows, GetParam() == LoopMode::kSimple ? 0 : 1);
  at.expect_nothing_left();
}

// The step after a stop ends where a state is kept, and the executor need not run it.
TEST_P(StepLoopTest, a_state_that_was_never_computed_is_given_to_nobody) {
  Fixture at(GetParam());
  const RequestId id = at.add(text(20), 50);
  at.heard = [&](RequestId) {
    return at.answers[id].tokens.size() < 12 ? StepListener::Verdict::kContinue
                                             : StepListener::Verdict::kStop;
  };
  at.run();
  at.heard = nullptr;
  std::vector<TokenId> next = text(20);
  const std::vector<TokenId>& answer = at.answers[id].tokens;
  next.insert(next.end(), answer.begin(), answer.end());
  EXPECT_EQ(next.size(), 32u);
  next.push_back(7);
  const RequestId again = at.add(next, 5);
  at.run();
  EXPECT_EQ(at.answers[again].tokens, FakeExecutor::answer(next, 5));
  at.expect_nothing_left();
}

TEST_P(StepLoopTest, an_error_of_one_sample_ends_only_its_request) {
  Fixture at(GetParam());
  const RequestId good = at.add(text(20), 12);
  const RequestId bad = at.add(text(20, 500), 12);
  at.logging.spoil = [&](const StepPlan& plan, StepResult& result) {
    std::size_t sample = 0;
    for (const StepRow& row : plan.rows) {
      if (!row.samples) continue;
      if (row.request == bad && at.answers[bad].tokens.size() == 4) {
        result.samples[sample] = fail(StatusCode::kInternal, "no number");
      }
      ++sample;
    }
  };
  at.run();
  EXPECT_EQ(at.answers[good].tokens, FakeExecutor::answer(text(20), 12));
  EXPECT_EQ(at.answers[bad].tokens.size(), 4u);
  EXPECT_EQ(at.answers[bad].ended.reason, FinishReason::kError);
  EXPECT_EQ(at.answers[bad].ended.status.message, "no number");
  at.expect_nothing_left();
}

// As when the client is found gone while its token is written.
TEST_P(StepLoopTest, a_listener_may_cancel_the_request_that_it_hears_of) {
  Fixture at(GetParam());
  const RequestId id = at.add(text(20), 12);
  const RequestId other = at.add(text(20, 500), 12);
  at.heard = [&](RequestId heard) {
    if (heard == id && at.answers[id].tokens.size() == 3) at.loop->cancel(id);
    return StepListener::Verdict::kContinue;
  };
  at.run();
  EXPECT_EQ(at.answers[id].ended.reason, FinishReason::kCancelled);
  EXPECT_EQ(at.answers[id].tokens.size(), 3u);
  EXPECT_EQ(at.answers[other].tokens, FakeExecutor::answer(text(20, 500), 12));
  at.expect_nothing_left();
}

TEST_P(StepLoopTest, a_listener_may_cancel_all_others) {
  Fixture at(GetParam());
  for (int i = 0; i < 4; ++i) at.add(text(20, 100 * i), 12);
  at.heard = [&](RequestId heard) {
    for (std::uint64_t other = 1; other <= 4; ++other) {
      if (heard.value != other) at.loop->cancel(RequestId{other});
    }
    return StepListener::Verdict::kContinue;
  };
  at.run();
  int whole = 0;
  for (const auto& [id, answer] : at.answers) {
    whole += answer.ended.reason == FinishReason::kLength ? 1 : 0;
  }
  EXPECT_EQ(whole, 1);
  at.expect_nothing_left();
}

TEST_P(StepLoopTest, a_request_may_be_added_when_another_ends) {
  Fixture at(GetParam());
  const RequestId first = at.add(text(20), 3);
  RequestId second;
  at.at_end = [&](RequestId ended) {
    if (ended == first) second = at.add(text(30, 500), 3);
  };
  at.run();
  EXPECT_EQ(at.answers[second].tokens, FakeExecutor::answer(text(30, 500), 3));
  at.expect_nothing_left();
}

TEST_P(StepLoopTest, draining_reports_every_step_in_flight_and_plans_none) {
  Fixture at(GetParam());
  const RequestId id = at.add(text(20), 30);
  for (int i = 0; i < 5; ++i) at.loop->turn();
  const std::int64_t planned = at.planner->counters().steps;
  at.loop->drain();
  EXPECT_EQ(at.planner->counters().steps, planned);
  EXPECT_EQ(at.logging.steps, planned);
  EXPECT_EQ(static_cast<std::int64_t>(at.answers[id].tokens.size()), planned);
  at.run();
  EXPECT_EQ(at.answers[id].tokens, FakeExecutor::answer(text(20), 30));
  at.expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(loops, StepLoopTest,
                         testing::Values(LoopMode::kSimple, LoopMode::kOverlapped),
                         [](const auto& with) {
                           return with.param == LoopMode::kSimple ? "simple" : "overlapped";
                         });

}  // namespace
}  // namespace tandem
