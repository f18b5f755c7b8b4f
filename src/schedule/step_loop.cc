#include "schedule/step_loop.h"

#include "base/check.h"

namespace tandem {

bool StepLoop::turn() {
  const bool launched = launch();
  if (in_flight_ == 0) return false;
  if (in_flight_ == depth_ || !launched) collect();
  return true;
}

void StepLoop::drain() {
  while (in_flight_ > 0) collect();
}

bool StepLoop::launch() {
  StepPlan& plan = plans_[(first_ + in_flight_) % depth_];
  ended_.clear();
  planner_.plan(plan, ended_);
  for (const EndedRequest& ended : ended_) report(ended);
  if (plan.empty()) return false;
  ++in_flight_;
  executor_.launch(plan);
  return true;
}

void StepLoop::collect() {
  const StepResult result = executor_.wait();
  const StepPlan& plan = plans_[first_];
  CHECK(result.sequence == plan.sequence, "step {} came back when {} was due", result.sequence,
        plan.sequence);
  planner_.commit_step(result.elapsed_ms);
  std::size_t next = 0;
  for (const StepRow& row : plan.rows) {
    if (row.samples) accept(row.request, result.samples[next++]);
  }
  CHECK(next == result.samples.size(), "a step of {} samples gave {}", next, result.samples.size());
  first_ = (first_ + 1) % depth_;
  --in_flight_;
}

void StepLoop::accept(RequestId id, const Result<SampledToken>& sample) {
  if (!planner_.contains(id)) return;  // ended while this step ran
  if (!sample) return end(id, FinishReason::kError, sample.error());
  planner_.commit_token(id, sample->id);
  const StepListener::Verdict verdict = listener_.on_token(id, *sample);
  if (!planner_.contains(id)) return;  // cancelled by the listener
  if (verdict == StepListener::Verdict::kStop) return end(id, FinishReason::kStop);
  if (planner_.is_full(id)) end(id, FinishReason::kLength);
}

void StepLoop::cancel(RequestId id) {
  if (planner_.contains(id)) end(id, FinishReason::kCancelled);
}

void StepLoop::end(RequestId id, FinishReason reason, Status status) {
  const EndKind kind = reason == FinishReason::kError       ? EndKind::kFailed
                       : reason == FinishReason::kCancelled ? EndKind::kCutShort
                                                            : EndKind::kComplete;
  const RequestView last = planner_.end(id, kind);
  report({id, reason, std::move(status), last});
}

void StepLoop::report(const EndedRequest& ended) {
  executor_.forget(ended.id);
  listener_.on_end(ended);
}

}  // namespace tandem
