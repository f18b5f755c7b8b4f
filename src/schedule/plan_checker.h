// Judges a planner's plans from outside: by what its earlier plans said, and by nothing of its own.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "schedule/planner_testing.h"

namespace tandem {

// Follows every request that owns memory from plan to plan, through moves and donations, and looks
// for a plan that touches what is not its row's. Not thread-safe; `at` must outlive it.
class PlanChecker {
 public:
  PlanChecker(const SchedulerFixture& at, const SchedulerSetup& setup) : at_(at), setup_(setup) {}

  // To be called around every plan, also where it comes out empty; check() between them where not.
  // kInternal with what is wrong.
  void before_plan();
  Result<void> check(const StepPlan& plan);
  Result<void> after_plan();

  std::size_t active() const { return active_.size(); }

 private:
  // A request that owns memory, after the last plan.
  struct Active {
    int retractions = 0;
    std::int64_t planned = 0;
    bool has_sampled = false;
    std::int64_t work = 0;            // offset
    std::vector<std::int64_t> pages;  // offsets
    std::size_t shared = 0;           // the first so many may be the tree's, or be given back
  };

  int retractions(RequestId id) const;
  void forget_gone();
  Result<void> follow_moves(std::span<const Move> moves);
  Result<void> check_row(const StepPlan& plan, const StepRow& row);
  Result<void> check_admission(const StepPlan& plan, const StepRow& row);
  Result<void> check_states(const StepPlan& plan) const;
  Result<void> check_pages(const StepPlan& plan) const;
  Result<void> check_budget(const StepPlan& plan) const;
  void share_snapshots(const StepPlan& plan);

  const SchedulerFixture& at_;
  const SchedulerSetup setup_;
  std::uint64_t sequence_ = 0;
  std::map<RequestId, Active> active_;

  // Before the plan.
  std::map<RequestId, int> retractions_before_;  // of the active
  std::int64_t retractions_so_far_ = 0;
  bool nobody_need_give_way_ = false;
};

}  // namespace tandem
