// The step loop: token ids in, sampled tokens out, many requests at once.
//
// Life of a request: submit() queues it; the planner (src/schedule/) admits it when there is
// memory, starts it from the longest cached prefix, and feeds its prompt in chunks beside the other
// requests' next tokens; every token goes to the request's sink until it is finished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "engine/model_executor.h"
#include "memory/namespace_key.h"
#include "model/model.h"
#include "sample/sampler.h"
#include "schedule/step_loop.h"

namespace tandem {

struct GenerateRequest {
  std::vector<TokenId> prompt;  // >= 1 token
  SamplingParams sampling;
  std::int64_t max_tokens = -1;  // of the answer, stop id included; -1: what the context leaves
  // Log-probs of the prompt's tokens from this position on come with the answer's first token
  // (SampledToken::prompt), with sampling.top_logprobs of the best ones; what they need is computed
  // though it is cached. 1 to prompt tokens; -1: none. The first token has none.
  std::int64_t prompt_logprobs_from = -1;
  std::vector<TokenId> stop_ids;  // end the answer; the sink sees them
  // What the answer has to follow beyond the sampling; nullptr: nothing.
  std::unique_ptr<TokenConstraint> constraint = nullptr;
  // How much of the prompt was there before what is asked now; 0: unknown. A hint for the cache.
  std::int64_t history_tokens = 0;
  CacheNamespace cache = {};  // what must not be shared with others, though the tokens agree
  TenantId tenant = {};       // who shares the machine's time fairly with others
  double tenant_weight = 1;   // the tenant's share of the time relative to others', above 0
  int priority = 0;           // higher first
  std::optional<TimePoint> deadline = {};  // to be admitted by
};

// What a request took. Times in milliseconds.
struct GenerateUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  CacheUse cache = {};                  // how the prompt met the prefix cache
  std::int64_t reprocessed_tokens = 0;  // computed again because others needed the memory
  double queue_ms = 0;                  // submitted until admitted
  double prefill_ms = 0;                // admitted until the first token was sampled
  double decode_ms = 0;                 // from the first token to the last
};

struct GenerateResult {
  FinishReason reason = FinishReason::kStop;
  Status status = {};  // meaningful for kError only
  GenerateUsage usage;
};

// Receives one request's tokens on the engine's loop thread: return quickly, never block, never
// call the engine's destructor. Owned by the engine from submit() until after on_finish, which
// comes exactly once.
class TokenSink {
 public:
  enum class Verdict { kContinue, kStop };

  virtual ~TokenSink() = default;
  virtual Verdict on_token(const SampledToken& token) = 0;
  virtual void on_finish(const GenerateResult& result) = 0;
};

struct EngineOptions {
  int threads = 0;                   // 0: one a hardware thread
  std::int64_t prefill_chunk = 512;  // prompt tokens in one step, over all requests
  std::int64_t max_running = 16;     // requests that share a step
  std::int64_t max_queued = 256;     // beyond those; more are refused with kResourceExhausted
  std::int64_t page_tokens = 16;
  // For states and rows together, of requests and cache. 0: as much as max_running requests can use
  // at full context, and the same again to keep.
  std::int64_t memory_bytes = 0;
  bool prefix_cache = true;
  std::int64_t track_interval = 0;       // tokens between states kept of an answer; 0: the grid
  std::int64_t max_states_per_path = 0;  // 0: no cap
  LoopMode loop = LoopMode::kOverlapped;
  // Of the planner, see PlannerOptions.
  double step_budget_ms = 50;
  double estimate_deviations = 1;
  QueuePolicy policy = QueuePolicy::kAuto;
  bool priorities = false;  // false: all requests are served as of one priority
  bool low_priority_first = false;
  std::optional<int> preempt_above = {};
  StepObserver* observer = nullptr;  // outlives the engine
};

// What an engine has in memory, and what it did; a snapshot.
struct EngineStatus {
  ArenaGeometry geometry;
  ArenaUsage arena;
  ArenaCounters arena_counters;
  PrefixUsage cache;
  PrefixCounters cache_counters;
  PlannerCounters planner;
  std::int64_t grid_tokens = 0;  // cached prefixes end at multiples of it
  std::int64_t queued = 0;
  std::int64_t running = 0;
};

// Whether steps get done: what a health check asks.
struct EngineProgress {
  bool busy = false;     // requests are queued or running
  TimePoint since = {};  // busy: when a step ended last, or the first request came if later
};

// What is inside, for whoever may look into it between two steps.
struct EngineInternals {
  Arena& arena;
  PrefixCache& cache;
  Planner& planner;
  std::span<std::byte> bytes;  // the arena's buffer
};

// Thread-safe. The destructor cancels what is still running.
class Engine {
 public:
  // Starts the loop thread. `clock` outlives the engine. kInvalidArgument for options out of range,
  // kResourceExhausted with the sum where the memory does not hold one request.
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const Model> model,
                                                const EngineOptions& options, const Clock& clock);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Model& model() const;
  // That may run or wait together.
  std::int64_t max_requests() const;

  // Refuses, without touching the sink: an empty or too long prompt, ids outside the vocabulary,
  // sampling parameters out of range, a full queue, a draining engine.
  Result<RequestId> submit(GenerateRequest request, std::unique_ptr<TokenSink> sink);

  // The request ends within one step with FinishReason::kCancelled; nothing happens if it has
  // ended.
  void cancel(RequestId id);

  // From now on submit() answers kUnavailable.
  void start_draining();
  bool draining() const;
  // Blocks until no request is queued or running.
  void wait_idle();

  // As of the end of the last step.
  EngineStatus status() const;
  // Never waits for a step.
  EngineProgress progress() const;
  // Evicts what no request holds.
  void flush_cache();
  // Runs `look` on the loop thread, with no step in flight; for self-tests and diagnosis. Blocks.
  void inspect(const std::function<void(EngineInternals)>& look);

 private:
  class Loop;
  explicit Engine(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace tandem
