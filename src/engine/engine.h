// The step loop: token ids in, sampled tokens out, many requests at once.
//
// Life of a request: submit() queues it; the loop thread admits it, feeds its prompt in chunks
// beside the other requests' next tokens, samples, and hands every token to the request's sink
// until it is finished.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "model/model.h"
#include "sample/sampler.h"

namespace tandem {

enum class FinishReason {
  kStop,       // a stop id was sampled, or the sink had enough
  kLength,     // max_tokens, or the context is full
  kCancelled,  // cancel(), or the engine shut down
  kError,      // GenerateResult::status says what
};

struct GenerateRequest {
  std::vector<TokenId> prompt;  // >= 1 token
  SamplingParams sampling;
  std::int64_t max_tokens = -1;   // of the answer, stop id included; -1: what the context leaves
  std::vector<TokenId> stop_ids;  // end the answer; the sink sees them
};

// What a request took. Times in milliseconds.
struct GenerateUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  double queue_ms = 0;    // submitted until admitted
  double prefill_ms = 0;  // admitted until the first token was sampled
  double decode_ms = 0;   // from the first token to the last
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
  std::int64_t prefill_chunk = 256;  // prompt tokens in one step, over all requests
  std::int64_t max_running = 16;     // requests that share a step
  std::int64_t max_queued = 256;     // beyond those; more are refused with kResourceExhausted
  std::int64_t page_tokens = 64;
};

// Thread-safe. The destructor cancels what is still running.
class Engine {
 public:
  // Starts the loop thread. `clock` outlives the engine.
  Engine(std::unique_ptr<const Model> model, const EngineOptions& options, const Clock& clock);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Model& model() const;

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

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace tandem
