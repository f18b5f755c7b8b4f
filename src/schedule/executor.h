// Who carries out step plans.
#pragma once

#include <cstdint>
#include <vector>

#include "base/sampled_token.h"
#include "base/status.h"
#include "schedule/step_plan.h"

namespace tandem {

struct StepResult {
  std::uint64_t sequence = 0;
  double elapsed_ms = 0;
  std::vector<Result<SampledToken>> samples = {};  // one for each row that samples, in order
};

// Runs plans in the order they are launched, on one stream. Called by one thread.
class Executor {
 public:
  virtual ~Executor() = default;

  // May return before the step has run. The caller keeps `plan` alive and unchanged until wait()
  // has returned its result.
  virtual void launch(const StepPlan& plan) = 0;
  // Blocks until the oldest launched step that was not waited for has run.
  virtual StepResult wait() = 0;
  // The request has ended: it will be in no plan launched from now on. Of those launched before,
  // its rows that follow a sample need not be computed any more, and its samples mean nothing; but
  // rows of its prompt must be, for the snapshots on their way may be the cache's already.
  virtual void forget(RequestId request) = 0;
};

}  // namespace tandem
