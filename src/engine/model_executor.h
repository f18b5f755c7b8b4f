// Carries out step plans with a model on the CPU, in one buffer.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "engine/step_observer.h"
#include "memory/arena_geometry.h"
#include "model/model.h"
#include "sample/sampler.h"
#include "schedule/executor.h"
#include "tensor/huge_buffer.h"

namespace tandem {

struct ModelExecutorOptions {
  int threads = 1;
  std::int64_t page_tokens = 64;
  bool background = true;  // launch() returns at once, and a thread of its own runs the steps
  StepObserver* observer = nullptr;  // not owned
};

// The log-probs that are wanted of a prompt.
struct PromptScoring {
  std::int64_t from = -1;            // the first token's position, >= 1; -1: none
  std::vector<TokenId> tokens = {};  // the prompt; empty if none are
};

// Owns the arena's bytes. open() and the functions of Executor belong to one thread.
class ModelExecutor final : public Executor {
 public:
  // kResourceExhausted if the machine does not give the memory. `model` and `clock` must outlive
  // the executor.
  static Result<std::unique_ptr<ModelExecutor>> create(const Model& model,
                                                       const ArenaGeometry& geometry,
                                                       const ModelExecutorOptions& options,
                                                       const Clock& clock);
  ~ModelExecutor() override;

  // Before the first plan that has the request. The scores come with the first sample.
  void open(RequestId request, Sampler sampler, PromptScoring scoring = {});

  // The arena's buffer. Not to be touched while a step is in flight.
  std::span<std::byte> bytes() { return {buffer_.data(), buffer_.size()}; }

  void launch(const StepPlan& plan) override;
  StepResult wait() override;
  void forget(RequestId request) override;

 private:
  // What outlasts the steps of one request. Used by the thread that runs them only.
  struct Sequence {
    Sampler sampler;
    TokenId last_sample = -1;
    PromptScoring scoring = {};
    std::shared_ptr<PromptLogprobs> scores = nullptr;  // until the first sample

    // How many of the last tokens of [begin, end) have logits that are looked at, with a sample
    // behind the last or not.
    std::int64_t logit_rows(std::int64_t begin, std::int64_t end, bool samples) const;
  };
  struct Cursor;

  ModelExecutor(const Model& model, HugeBuffer buffer, const ModelExecutorOptions& options,
                const Clock& clock);

  void work();
  StepResult run(const StepPlan& plan);
  void move_states(const StepPlan& plan);
  std::vector<Cursor> find_sequences(const StepPlan& plan);
  bool run_wave(const StepPlan& plan, std::vector<Cursor>& cursors);
  void score(Sequence& sequence, std::int64_t position, std::span<const float> logits);
  void sample(const StepRow& row, Cursor& cursor, std::span<float> logits);

  const Model& model_;
  const ModelExecutorOptions options_;
  const Clock& clock_;
  HugeBuffer buffer_;
  std::int64_t state_bytes_;
  Scratch scratch_;
  ThreadTeam team_;
  std::vector<std::byte*> page_pointers_;
  std::vector<SequenceInput> inputs_;

  std::mutex mutex_;  // guards from here to stopping_
  std::condition_variable changed_;
  std::unordered_map<RequestId, std::shared_ptr<Sequence>> sequences_;
  std::deque<const StepPlan*> launched_;
  std::deque<StepResult> results_;
  bool stopping_ = false;

  std::thread thread_;  // last: starts when everything else stands
};

}  // namespace tandem
