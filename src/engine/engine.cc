#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_set>

#include "engine/active_request.h"

namespace tandem {
namespace {

Result<void> check_request(const ModelSpec& spec, const GenerateRequest& request) {
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  if (prompt_tokens == 0) return invalid("the prompt has no tokens");
  if (prompt_tokens >= spec.context_length) {
    return invalid(
        "the prompt has {} tokens; the context holds {}, with at least one for the answer",
        prompt_tokens, spec.context_length);
  }
  for (TokenId id : request.prompt) {
    if (id < 0 || id >= spec.vocab_size) {
      return invalid("prompt token id {} is outside the vocabulary of {}", id, spec.vocab_size);
    }
  }
  if (request.max_tokens < -1 || request.max_tokens == 0) {
    return fail(Status{StatusCode::kInvalidArgument,
                       fmt::format("max_tokens: expected at least 1, got {}", request.max_tokens),
                       "max_tokens"});
  }
  return check_sampling_params(request.sampling);
}

}  // namespace

class Engine::Loop {
 public:
  Loop(std::unique_ptr<const Model> model, const EngineOptions& options, const Clock& clock)
      : model_(std::move(model)),
        options_(options),
        clock_(clock),
        team_(options.threads > 0 ? options.threads : default_thread_count()),
        thread_([this] { run(); }) {}

  ~Loop() {
    {
      std::lock_guard lock(mutex_);
      shutting_down_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const Model& model() const { return *model_; }

  Result<RequestId> submit(GenerateRequest request, std::unique_ptr<TokenSink> sink) {
    TRY(check_request(model_->spec(), request));
    const std::int64_t room =
        model_->spec().context_length - static_cast<std::int64_t>(request.prompt.size());
    request.max_tokens = request.max_tokens < 0 ? room : std::min(request.max_tokens, room);
    RequestId id;
    {
      std::lock_guard lock(mutex_);
      if (draining_) return fail(StatusCode::kUnavailable, "the server is shutting down");
      // Counted over both, so that a free place in a step is not refused for want of a place in the
      // queue.
      if (alive_ >= options_.max_running + options_.max_queued) {
        return fail(StatusCode::kResourceExhausted, "{} requests are running or waiting already",
                    alive_);
      }
      id = RequestId{++last_id_};
      queued_.push_back(
          std::make_unique<ActiveRequest>(id, std::move(request), std::move(sink), clock_.now()));
      ++alive_;
    }
    changed_.notify_all();
    return id;
  }

  void cancel(RequestId id) {
    {
      std::lock_guard lock(mutex_);
      cancelled_.insert(id);
    }
    changed_.notify_all();
  }

  void start_draining() {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  bool draining() const {
    std::lock_guard lock(mutex_);
    return draining_;
  }
  void wait_idle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return alive_ == 0; });
  }

 private:
  using Active = std::unique_ptr<ActiveRequest>;

  void run() {
    while (admit()) {
      if (!running_.empty()) step();
    }
    for (Active& request : running_) finish(*request, FinishReason::kCancelled);
    running_.clear();
  }

  // Waits for work; applies cancellations; admits what fits. False when the engine shuts down.
  bool admit() {
    std::vector<Active> ended;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] {
        return shutting_down_ || !running_.empty() || !queued_.empty() || !cancelled_.empty();
      });
      if (shutting_down_) {
        std::move(queued_.begin(), queued_.end(), std::back_inserter(running_));
        queued_.clear();
        return false;
      }
      take_cancelled(queued_, ended);
      take_cancelled(running_, ended);
      cancelled_.clear();
      while (!queued_.empty() &&
             static_cast<std::int64_t>(running_.size()) < options_.max_running) {
        running_.push_back(std::move(queued_.front()));
        queued_.pop_front();
        running_.back()->admitted = clock_.now();
      }
    }
    for (Active& request : ended) finish(*request, FinishReason::kCancelled);
    return true;
  }

  template <typename Container>
  void take_cancelled(Container& from, std::vector<Active>& ended) {
    for (Active& request : from) {
      if (cancelled_.contains(request->id)) ended.push_back(std::move(request));
    }
    std::erase(from, nullptr);
  }

  // One forward pass: every decoding request's next token, and up to prefill_chunk prompt tokens.
  void step() {
    plan_.clear();
    std::int64_t prefill_left = options_.prefill_chunk;
    for (Active& request : running_) {
      const std::int64_t tokens =
          request->decoding() ? request->pending() : std::min(request->pending(), prefill_left);
      if (tokens == 0) continue;
      if (!request->decoding()) prefill_left -= tokens;
      if (reserve_memory(*request, request->processed + tokens))
        plan_.push_back({request.get(), tokens});
    }
    run_forward();
    std::erase_if(running_, [](const Active& request) { return request->sink == nullptr; });
    // A long prompt must not keep those behind it waiting for all of its chunks.
    if (!running_.empty()) std::rotate(running_.begin(), running_.begin() + 1, running_.end());
  }

  struct PlanRow {
    ActiveRequest* request;
    std::int64_t tokens;
  };

  bool reserve_memory(ActiveRequest& request, std::int64_t tokens) {
    try {
      if (!request.memory) {
        request.memory =
            std::make_unique<SequenceMemory>(model_->memory().total, options_.page_tokens);
      }
      request.memory->reserve_tokens(tokens);
      return true;
    } catch (const std::bad_alloc&) {
      finish(request, FinishReason::kError,
             {StatusCode::kResourceExhausted,
              fmt::format("no memory for {} tokens of context", tokens)});
      return false;
    }
  }

  void run_forward() {
    std::vector<SequenceInput> inputs;
    for (const PlanRow& row : plan_) {
      ActiveRequest& request = *row.request;
      const bool completes = row.tokens == request.pending();
      inputs.push_back({.tokens = std::span(request.tokens)
                                      .subspan(static_cast<std::size_t>(request.processed),
                                               static_cast<std::size_t>(row.tokens)),
                        .start = request.processed,
                        .state = request.memory->state(),
                        .pages = request.memory->pages(),
                        .logit_rows = completes ? 1 : 0});
    }
    if (inputs.empty()) return;
    const ForwardBatch batch{.sequences = inputs, .page_tokens = options_.page_tokens};
    Scratch::Frame frame(scratch_);
    Activations logits = scratch_.take(batch.logit_rows(), model_->spec().vocab_size);
    model_->forward(batch, scratch_, team_, logits);

    std::int64_t next_logits = 0;
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      plan_[i].request->processed += plan_[i].tokens;
      if (inputs[i].logit_rows == 0) continue;
      float* row = logits.row(next_logits++);
      accept(*plan_[i].request, {row, static_cast<std::size_t>(logits.columns)});
    }
  }

  // Samples a token and ends the request if it was the last one.
  void accept(ActiveRequest& request, std::span<float> logits) {
    Result<SampledToken> token = request.sampler.next(logits);
    if (!token) return finish(request, FinishReason::kError, token.error());
    request.last_token = clock_.now();
    if (!request.decoding()) request.first_token = request.last_token;
    request.tokens.push_back(token->id);
    const bool enough = request.sink->on_token(*token) == TokenSink::Verdict::kStop;
    const bool stop_id = std::find(request.stop_ids.begin(), request.stop_ids.end(), token->id) !=
                         request.stop_ids.end();
    if (enough || stop_id) return finish(request, FinishReason::kStop);
    if (request.completion_tokens() >= request.max_tokens) finish(request, FinishReason::kLength);
  }

  // Reports the end; the request leaves running_ at the end of the step (its sink is gone).
  void finish(ActiveRequest& request, FinishReason reason, Status status = {}) {
    GenerateResult result{.reason = reason, .status = std::move(status), .usage = {}};
    result.usage.prompt_tokens = request.prompt_tokens;
    result.usage.completion_tokens = request.completion_tokens();
    if (request.admitted != TimePoint{}) {
      result.usage.queue_ms = milliseconds(request.submitted, request.admitted);
    }
    if (request.decoding()) {
      result.usage.prefill_ms = milliseconds(request.admitted, request.first_token);
      result.usage.decode_ms = milliseconds(request.first_token, request.last_token);
    }
    request.sink->on_finish(result);
    request.sink = nullptr;
    bool idle = false;
    {
      std::lock_guard lock(mutex_);
      idle = --alive_ == 0;
    }
    if (idle) idle_.notify_all();
  }

  const std::unique_ptr<const Model> model_;
  const EngineOptions options_;
  const Clock& clock_;

  mutable std::mutex mutex_;  // guards from here to alive_
  std::condition_variable changed_;
  std::condition_variable idle_;
  std::deque<Active> queued_;
  std::unordered_set<RequestId> cancelled_;
  std::uint64_t last_id_ = 0;
  bool draining_ = false;
  bool shutting_down_ = false;
  std::int64_t alive_ = 0;  // submitted and not finished

  // The loop thread's own.
  std::vector<Active> running_;
  std::vector<PlanRow> plan_;
  Scratch scratch_;
  ThreadTeam team_;
  std::thread thread_;  // last: starts when everything else stands
};

Engine::Engine(std::unique_ptr<const Model> model, const EngineOptions& options, const Clock& clock)
    : loop_(std::make_unique<Loop>(std::move(model), options, clock)) {}
Engine::~Engine() = default;

const Model& Engine::model() const { return loop_->model(); }
Result<RequestId> Engine::submit(GenerateRequest request, std::unique_ptr<TokenSink> sink) {
  return loop_->submit(std::move(request), std::move(sink));
}
void Engine::cancel(RequestId id) { loop_->cancel(id); }
void Engine::start_draining() { loop_->start_draining(); }
bool Engine::draining() const { return loop_->draining(); }
void Engine::wait_idle() { loop_->wait_idle(); }

}  // namespace tandem
