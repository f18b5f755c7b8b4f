// An executor without a model: runs plans on real bytes with a recurrence that a test can foretell.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "memory/arena_geometry.h"
#include "schedule/executor.h"

namespace tandem {

// The state after some tokens is a hash of them, and a row is the state behind its token. The token
// sampled next depends on the state and on every row: whoever computes from the wrong state, or
// reads one wrong row, answers something else. Rows are also checked directly, and what is wrong is
// counted in faults().
class FakeExecutor : public Executor {
 public:
  static constexpr std::int64_t kStateBytes = 64;
  static constexpr std::int64_t kRowBytes = 8;
  static constexpr TokenId kVocab = 97;

  FakeExecutor(const ArenaGeometry& geometry, std::int64_t page_tokens);

  // What the answer to `prompt` is, whatever the scheduler does.
  static std::vector<TokenId> answer(std::span<const TokenId> prompt, std::int64_t tokens);

  // Steps run when they are waited for, as late as an executor may.
  void launch(const StepPlan& plan) override { launched_.push_back(&plan); }
  StepResult wait() override;
  void forget(RequestId request) override { last_sample_.erase(request); }

  std::int64_t faults() const { return faults_; }
  std::span<std::byte> bytes() { return buffer_; }
  // How long a step takes; by default steps are not timed.
  void set_duration(std::function<double(const StepPlan&)> duration_ms) {
    duration_ms_ = std::move(duration_ms);
  }
  // Called before a step runs, to damage what it reads.
  void set_sabotage(std::function<void(const StepPlan&)> sabotage) {
    sabotage_ = std::move(sabotage);
  }

 private:
  struct State {
    std::uint64_t hash;
    std::int64_t tokens;
  };

  State load_state(std::int64_t offset) const;
  void store_state(std::int64_t offset, State state);
  std::uint64_t& row_at(const StepPlan& plan, const StepRow& row, std::int64_t position);
  TokenId run_row(const StepPlan& plan, std::size_t index);

  std::int64_t page_tokens_;
  std::vector<std::byte> buffer_;
  std::deque<const StepPlan*> launched_;
  std::unordered_map<RequestId, TokenId> last_sample_;
  std::function<double(const StepPlan&)> duration_ms_;
  std::function<void(const StepPlan&)> sabotage_;
  std::int64_t faults_ = 0;
};

}  // namespace tandem
