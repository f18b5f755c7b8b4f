// Random days of a scheduler, with every answer foretold and every plan judged.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <vector>

#include "schedule/plan_checker.h"
#include "schedule/planner_testing.h"

namespace tandem {

// What may happen. `a` and `b` choose among what there is, modulo its number.
struct ScenarioEvent {
  enum Kind : std::uint8_t {
    kAdd,       // a prompt out of a tree of texts that fork
    kFollowUp,  // an earlier prompt, its answer and something new
    kTurn,      // 1 + a % 4 turns of the loop
    kCancel,    // a request in any state
    kDrain,     // waits for the steps in flight
    kWait,      // some minutes
  };
  Kind kind = kTurn;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
};
std::ostream& operator<<(std::ostream& stream, const ScenarioEvent& event);

struct ScenarioSetup {
  SchedulerSetup scheduler;
  std::optional<TokenId> stop_token = {};
  // Turns between two looks at everything.
  std::int64_t check_every = 1;
  bool keep_plans = false;
};
std::ostream& operator<<(std::ostream& stream, const ScenarioSetup& setup);

// Shows each plan to an observer before it is launched.
class ObservedExecutor final : public Executor {
 public:
  ObservedExecutor(Executor& inner, std::function<void(const StepPlan&)> observe)
      : inner_(inner), observe_(std::move(observe)) {}

  void launch(const StepPlan& plan) override {
    observe_(plan);
    inner_.launch(plan);
  }
  StepResult wait() override { return inner_.wait(); }
  void forget(RequestId request) override { inner_.forget(request); }

 private:
  Executor& inner_;
  std::function<void(const StepPlan&)> observe_;
};

// Each method returns kInternal with what went wrong.
class Scenario {
 public:
  explicit Scenario(const ScenarioSetup& setup);

  Result<void> apply(const ScenarioEvent& event);
  // Lets all requests end, then evicts everything and looks for what is left.
  Result<void> finish();

  SchedulerFixture& at() { return at_; }
  const std::vector<StepPlan>& plans() const { return plans_; }
  std::int64_t requests() const { return static_cast<std::int64_t>(last_id_); }

 private:
  struct Fixture final : SchedulerFixture {
    using SchedulerFixture::SchedulerFixture;
    Verdict on_token(RequestId id, const SampledToken& token) override {
      ++emitted;
      return SchedulerFixture::on_token(id, token);
    }
    std::int64_t emitted = 0;
  };
  struct Asked {
    std::vector<TokenId> prompt;
    std::int64_t max_tokens = 0;
    bool is_cancelled = false;
  };

  std::vector<TokenId> text(std::uint32_t way, std::int64_t tokens) const;
  Result<void> add(std::vector<TokenId> prompt, std::uint32_t a, std::uint32_t b);
  Result<void> turn(bool& busy);
  Result<void> check_progress();
  Result<void> check_ends();
  Result<void> check_end(RequestId id, const Asked& asked);
  Result<void> check_all() const;

  const ScenarioSetup setup_;
  Fixture at_;
  PlanChecker checker_;
  ObservedExecutor executor_;
  ArenaUsage empty_;
  Result<void> verdict_ = {};  // of the plans
  std::vector<StepPlan> plans_;

  std::uint64_t last_id_ = 0;
  std::map<RequestId, Asked> open_;
  std::vector<std::vector<TokenId>> talks_;  // prompts with their answers
  std::int64_t turns_ = 0;
  std::int64_t emitted_before_ = 0;
  std::int64_t steps_before_ = 0;  // when the last token came, or somebody came or went
};

}  // namespace tandem
