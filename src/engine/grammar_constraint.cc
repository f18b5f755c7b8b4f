#include "engine/grammar_constraint.h"

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "text/grammar/matcher.h"

namespace tandem {
namespace {

// Shared with a job that may outlive its request.
struct MaskState {
  MaskState(Grammar::Pointer grammar, std::int64_t vocab_size)
      : matcher(std::move(grammar)), mask((static_cast<std::size_t>(vocab_size) + 63) / 64) {}

  void fill() { matcher.fill_mask(std::span(mask).first(matcher.mask_words())); }

  // Belong to the worker while `in_progress`, to the request's thread otherwise.
  GrammarMatcher matcher;
  std::vector<std::uint64_t> mask;

  std::mutex mutex;  // guards in_progress
  std::condition_variable done;
  bool in_progress = false;
};

class GrammarConstraint final : public TokenConstraint {
 public:
  GrammarConstraint(Grammar::Pointer grammar, std::int64_t vocab_size, WorkerPool& workers)
      : state_(std::make_shared<MaskState>(std::move(grammar), vocab_size)), workers_(workers) {
    state_->fill();
  }

  Result<std::span<const std::uint64_t>> allowed() override {
    {
      std::unique_lock lock(state_->mutex);
      state_->done.wait(lock, [this] { return !state_->in_progress; });
    }
    if (std::exchange(is_stale_, false)) state_->fill();
    return std::span<const std::uint64_t>(state_->mask);
  }

  void accept(TokenId token) override {
    state_->matcher.accept(token);
    if (state_->matcher.mask_is_known()) {
      is_stale_ = true;
      return;
    }
    state_->in_progress = true;
    workers_.run(WorkerPool::Job([state = state_] {
      state->fill();
      {
        const std::lock_guard lock(state->mutex);
        state->in_progress = false;
      }
      state->done.notify_all();
    }));
  }

 private:
  std::shared_ptr<MaskState> state_;
  WorkerPool& workers_;
  bool is_stale_ = false;
};

}  // namespace

std::unique_ptr<TokenConstraint> make_grammar_constraint(Grammar::Pointer grammar,
                                                         std::int64_t vocab_size,
                                                         WorkerPool& workers) {
  return std::make_unique<GrammarConstraint>(std::move(grammar), vocab_size, workers);
}

}  // namespace tandem
