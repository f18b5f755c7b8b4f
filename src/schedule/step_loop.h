// Plan, launch, wait, report: the loop around planner and executor.
#pragma once

#include <deque>
#include <vector>

#include "schedule/executor.h"
#include "schedule/planner.h"

namespace tandem {

// Told of what the loop finds out, on its thread.
class StepListener {
 public:
  enum class Verdict { kContinue, kStop };

  virtual ~StepListener() = default;
  virtual Verdict on_token(RequestId id, const SampledToken& token) = 0;
  // Exactly once for each request added.
  virtual void on_end(const EndedRequest& ended) = 0;
};

// kSimple waits for each step before it plans the next: easy to follow in a debugger, and what the
// other is tested against. kOverlapped plans a step while the one before it runs; a request that
// ends has then been computed one token too far.
enum class LoopMode { kSimple, kOverlapped };

// Planner, executor and listener must outlive it. Not thread-safe.
class StepLoop {
 public:
  StepLoop(Planner& planner, Executor& executor, StepListener& listener, LoopMode mode)
      : planner_(planner),
        executor_(executor),
        listener_(listener),
        depth_(mode == LoopMode::kOverlapped ? 2 : 1),
        plans_(depth_) {}

  // Plans and launches at most one step, and collects at most one. False if there is nothing to do
  // until a request is added.
  bool turn();
  // Waits for all steps in flight, and reports them.
  void drain();

  // Ends a request with FinishReason::kCancelled; nothing happens if it has ended.
  void cancel(RequestId id);

 private:
  bool launch();
  void collect();
  void accept(RequestId id, const Result<SampledToken>& sample);
  void end(RequestId id, FinishReason reason, Status status = {});
  void report(const EndedRequest& ended);

  Planner& planner_;
  Executor& executor_;
  StepListener& listener_;
  const std::size_t depth_;
  std::vector<StepPlan> plans_;  // a ring: [first_, first_ + in_flight_)
  std::size_t first_ = 0;
  std::size_t in_flight_ = 0;
  std::vector<EndedRequest> ended_;
};

}  // namespace tandem
