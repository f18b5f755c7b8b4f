// A grammar as the sampler asks for it: masks, made off the step loop where they take long.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "sample/token_constraint.h"
#include "text/grammar/grammar.h"

namespace tandem {

// One thread that makes masks, for all requests. Thread-safe; the destructor drops what is queued.
class MaskWorker {
 public:
  MaskWorker();
  ~MaskWorker();
  MaskWorker(const MaskWorker&) = delete;
  MaskWorker& operator=(const MaskWorker&) = delete;

  void run(std::function<void()> job);

 private:
  void work();

  std::mutex mutex_;  // guards jobs_ and stopping_
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when everything else stands
};

// The state of one request in `grammar`. A mask whose parts are all known is put together when it
// is asked for, in microseconds; another one is made by `worker` while the model computes the
// logits that it is for. The first mask is made here, on the caller's thread.
// `vocab_size` is the model's, at least the grammar's; ids beyond the grammar's are never allowed.
// `worker` outlives the constraint.
std::unique_ptr<TokenConstraint> make_grammar_constraint(Grammar::Pointer grammar,
                                                         std::int64_t vocab_size,
                                                         MaskWorker& worker);

}  // namespace tandem
