#include "serve/fake_engine.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "engine/engine.h"

namespace tandem {
namespace {

FakeEnginePlan current_plan;

}  // namespace

void set_fake_engine_plan(const FakeEnginePlan& plan) { current_plan = plan; }

// As the real one: one thread, a mailbox, sinks called on that thread.
class Engine::Loop {
 public:
  Loop(std::shared_ptr<const Model> model, const Clock& clock)
      : model_(std::move(model)), clock_(clock), thread_([this] { run(); }) {}
  ~Loop() {
    {
      std::lock_guard lock(mutex_);
      shutting_down_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const Model& model() const { return *model_; }

  RequestId submit(GenerateRequest request, std::unique_ptr<TokenSink> sink) {
    std::lock_guard lock(mutex_);
    const RequestId id{++last_id_};
    submitted_.push_back({id, std::move(request), std::move(sink)});
    ++alive_;
    changed_.notify_all();
    return id;
  }
  void cancel(RequestId id) {
    std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
    changed_.notify_all();
  }
  void wait_idle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return alive_ == 0; });
  }

  std::atomic<bool> draining = false;

 private:
  struct Request {
    RequestId id;
    GenerateRequest request;
    std::unique_ptr<TokenSink> sink;
    std::int64_t tokens = 0;
  };

  void run() {
    TimePoint next = clock_.now();
    while (take_mail()) {
      if (current_plan.step.count() > 0) {
        next = std::max(next + current_plan.step, clock_.now());
        std::this_thread::sleep_until(next);
      }
      for (auto at = live_.begin(); at != live_.end();) at = step(at);
    }
    while (!live_.empty()) finish(live_.begin(), FinishReason::kCancelled);
  }

  // Waits unless there is work. False when the engine shuts down.
  bool take_mail() {
    std::vector<Request> submitted;
    std::vector<RequestId> cancelled;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] {
        return shutting_down_ || !live_.empty() || !submitted_.empty() || !cancelled_.empty();
      });
      if (shutting_down_) return false;
      submitted.swap(submitted_);
      cancelled.swap(cancelled_);
    }
    for (Request& request : submitted) live_.emplace(request.id, std::move(request));
    for (const RequestId id : cancelled) {
      if (const auto found = live_.find(id); found != live_.end()) {
        finish(found, FinishReason::kCancelled);
      }
    }
    return true;
  }

  using Live = std::map<RequestId, Request>;

  Live::iterator step(Live::iterator at) {
    Request& request = at->second;
    if (current_plan.handed != nullptr) {
      (*current_plan.handed)[request.request.sampling.seed].push_back(clock_.now());
    }
    const auto verdict = request.sink->on_token({.id = current_plan.token});
    if (++request.tokens >= request.request.max_tokens) {
      return finish(at, FinishReason::kLength);
    }
    return verdict == TokenSink::Verdict::kStop ? finish(at, FinishReason::kStop) : std::next(at);
  }

  Live::iterator finish(Live::iterator at, FinishReason reason) {
    Request& request = at->second;
    request.sink->on_finish(
        {.reason = reason,
         .usage = {.prompt_tokens = static_cast<std::int64_t>(request.request.prompt.size()),
                   .completion_tokens = request.tokens}});
    const auto next = live_.erase(at);
    std::lock_guard lock(mutex_);
    if (--alive_ == 0) idle_.notify_all();
    return next;
  }

  const std::shared_ptr<const Model> model_;
  const Clock& clock_;
  std::mutex mutex_;  // guards from here to alive_
  std::condition_variable changed_;
  std::condition_variable idle_;
  std::vector<Request> submitted_;
  std::vector<RequestId> cancelled_;
  std::uint64_t last_id_ = 0;
  bool shutting_down_ = false;
  std::int64_t alive_ = 0;
  Live live_;  // the loop thread's own
  std::thread thread_;
};

Engine::Engine(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Engine::~Engine() = default;
Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const Model> model,
                                               const EngineOptions&, const Clock& clock) {
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Loop>(std::move(model), clock)));
}
const Model& Engine::model() const { return loop_->model(); }
Result<RequestId> Engine::submit(GenerateRequest request, std::unique_ptr<TokenSink> sink) {
  return loop_->submit(std::move(request), std::move(sink));
}
void Engine::cancel(RequestId id) { loop_->cancel(id); }
std::int64_t Engine::max_requests() const { return std::numeric_limits<std::int64_t>::max(); }
void Engine::start_draining() { loop_->draining = true; }
bool Engine::draining() const { return loop_->draining; }
void Engine::wait_idle() { loop_->wait_idle(); }
EngineStatus Engine::status() const { return {}; }
EngineProgress Engine::progress() const { return {}; }
void Engine::flush_cache() {}
void Engine::inspect(const std::function<void(EngineInternals)>&) {}  // there is nothing inside

}  // namespace tandem
