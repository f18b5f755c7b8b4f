#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "engine/engine_memory.h"

namespace tandem {
namespace {

Result<void> check_options(const EngineOptions& options) {
  const auto positive = [](std::int64_t value, const char* name) -> Result<void> {
    if (value >= 1) return {};
    return invalid("{}: expected at least 1, got {}", name, value);
  };
  TRY(positive(options.prefill_chunk, "prefill chunk"));
  TRY(positive(options.max_running, "running requests"));
  TRY(positive(options.page_tokens, "page size"));
  if (options.max_queued < 0) return invalid("queued requests: expected none or more");
  if (!(options.step_budget_ms > 0)) {
    return invalid("step budget: expected more than 0 ms, got {}", options.step_budget_ms);
  }
  if (!std::isfinite(options.estimate_deviations) || options.estimate_deviations < 0) {
    return invalid("deviations of the expected length of answers: expected at least 0, got {}",
                   options.estimate_deviations);
  }
  // Below it, requests of one priority would take each other's place for ever.
  if (options.preempt_above && *options.preempt_above < 0) {
    return invalid("preemption threshold: expected at least 0, got {}", *options.preempt_above);
  }
  return {};
}

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
  if (request.prompt_logprobs_from != -1 &&
      (request.prompt_logprobs_from < 1 || request.prompt_logprobs_from > prompt_tokens)) {
    return invalid("log-probs of the prompt: expected a position from 1 to {}, got {}",
                   prompt_tokens, request.prompt_logprobs_from);
  }
  if (!std::isfinite(request.tenant_weight) || request.tenant_weight <= 0) {
    return invalid("tenant weight: expected more than 0, got {}", request.tenant_weight);
  }
  return check_sampling_params(request.sampling, spec.vocab_size);
}

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

PlannerOptions planner_options(const EngineOptions& options, std::int64_t grid_tokens) {
  return {
      .max_running = options.max_running,
      .prefill_chunk = round_up(options.prefill_chunk, grid_tokens),
      .step_budget_ms = options.step_budget_ms,
      .track_interval = round_up(std::max<std::int64_t>(1, options.track_interval), grid_tokens),
      .estimate_deviations = options.estimate_deviations,
      .policy = options.policy,
      .low_priority_first = options.low_priority_first,
      .preempt_above = options.preempt_above,
      .use_cache = options.prefix_cache};
}

}  // namespace

// One thread owns planner, arena and cache; others reach it through a mailbox.
class Engine::Loop final : public StepListener {
 public:
  Loop(std::shared_ptr<const Model> model, const EngineOptions& options, const Clock& clock)
      : model_(std::move(model)), options_(options), clock_(clock) {}

  Result<void> start() {
    TRY(check_options(options_));
    const std::int64_t grid_tokens = cache_grid_tokens(options_.page_tokens);
    const ArenaGeometry geometry =
        TRY(engine_geometry(model_->spec(), model_->memory().total, options_));
    arena_ = TRY(Arena::create(geometry));
    const CostTable cost = TRY(CostTable::create(assumed_cost()));
    cache_ = TRY(PrefixCache::create(*arena_, clock_,
                                     {.page_tokens = options_.page_tokens,
                                      .grid_tokens = grid_tokens,
                                      .max_states_per_path = options_.max_states_per_path,
                                      .prefill_cost = cost.prefill_cost(options_.prefill_chunk)}));
    planner_ = std::make_unique<Planner>(*arena_, *cache_, clock_,
                                         planner_options(options_, grid_tokens), cost);
    executor_ = TRY(ModelExecutor::create(
        *model_, geometry,
        {.threads = options_.threads > 0 ? options_.threads : default_thread_count(),
         .page_tokens = options_.page_tokens,
         .background = options_.loop == LoopMode::kOverlapped,
         .observer = options_.observer},
        clock_));
    steps_ = std::make_unique<StepLoop>(*planner_, *executor_, *this, options_.loop);
    publish_status();
    thread_ = std::thread([this] { run(); });
    return {};
  }

  ~Loop() override {
    if (!thread_.joinable()) return;
    {
      std::lock_guard lock(mutex_);
      shutting_down_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const Model& model() const { return *model_; }
  std::int64_t max_requests() const { return options_.max_running + options_.max_queued; }

  Result<RequestId> submit(GenerateRequest request, std::unique_ptr<TokenSink> sink) {
    TRY(check_request(model_->spec(), request));
    const auto prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
    TRY(planner_->check(prompt_tokens));
    const std::int64_t room = model_->spec().context_length - prompt_tokens;
    request.max_tokens = request.max_tokens < 0 ? room : std::min(request.max_tokens, room);
    RequestId id;
    {
      std::lock_guard lock(mutex_);
      if (draining_) return fail(StatusCode::kUnavailable, "the server is shutting down");
      // Counted over both, so that a free place in a step is not refused for want of a place in the
      // queue.
      if (alive_ >= max_requests()) {
        return fail(StatusCode::kResourceExhausted, "{} requests are running or waiting already",
                    alive_);
      }
      id = RequestId{++last_id_};
      submitted_.push_back({id, std::move(request), std::move(sink), clock_.now()});
      if (++alive_ == 1) progress_ = clock_.now();
    }
    changed_.notify_all();
    return id;
  }

  void cancel(RequestId id) {
    {
      std::lock_guard lock(mutex_);
      cancelled_.push_back(id);
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
  EngineStatus status() const {
    std::lock_guard lock(mutex_);
    return status_;
  }
  EngineProgress progress() const {
    std::lock_guard lock(mutex_);
    return {alive_ > 0, progress_};
  }
  void inspect(const std::function<void(EngineInternals)>& look) {
    std::promise<void> done;
    {
      std::lock_guard lock(mutex_);
      looks_.push_back({&look, &done});
    }
    changed_.notify_all();
    done.get_future().wait();
  }

 private:
  struct Submission {
    RequestId id;
    GenerateRequest request;
    std::unique_ptr<TokenSink> sink;
    TimePoint at;
  };
  struct Look {
    const std::function<void(EngineInternals)>* look;
    std::promise<void>* done;
  };
  // What the loop thread keeps of a request beside the planner.
  struct Live {
    std::unique_ptr<TokenSink> sink;
    std::vector<TokenId> stop_ids;
    TimePoint submitted;
    TimePoint first_token = {};
    TimePoint last_token = {};
  };

  void run() {
    bool busy = false;
    while (take_mail(busy)) {
      busy = steps_->turn();
      publish_status();
      if (busy) note_progress();
    }
    while (!live_.empty()) steps_->cancel(live_.begin()->first);
    steps_->drain();
  }

  void note_progress() {
    std::lock_guard lock(mutex_);
    progress_ = clock_.now();
  }

  // Waits for mail unless there is work. False when the engine shuts down.
  bool take_mail(bool busy) {
    std::vector<Submission> submitted;
    std::vector<RequestId> cancelled;
    std::vector<Look> looks;
    bool shutting_down = false;
    if (!busy) check_idle();
    {
      std::unique_lock lock(mutex_);
      if (!busy) {
        changed_.wait(lock, [this] {
          return shutting_down_ || !submitted_.empty() || !cancelled_.empty() || !looks_.empty();
        });
      }
      submitted.swap(submitted_);
      cancelled.swap(cancelled_);
      shutting_down = shutting_down_;
      looks.swap(looks_);
    }
    for (Submission& submission : submitted) accept(std::move(submission));
    for (const RequestId id : cancelled) steps_->cancel(id);
    for (const Look& look : looks) answer(look);
    return !shutting_down;
  }

  // Nobody waits for an idle engine, so a debug build looks into every table.
  void check_idle() const {
    if constexpr (kDebugBuild) {
      const Result<void> sound = planner_->integrity_check();
      CHECK(sound.has_value(), "the idle engine's tables are wrong: {}", sound.error().message);
    }
  }

  void accept(Submission submission) {
    GenerateRequest& request = submission.request;
    const std::int64_t scores_from = request.prompt_logprobs_from;
    executor_->open(
        submission.id,
        Sampler(request.sampling, request.prompt, request.stop_ids, std::move(request.constraint)),
        {.from = scores_from, .tokens = scores_from > 0 ? request.prompt : std::vector<TokenId>{}});
    live_.emplace(submission.id, Live{.sink = std::move(submission.sink),
                                      .stop_ids = std::move(request.stop_ids),
                                      .submitted = submission.at});
    planner_->add({.id = submission.id,
                   .prompt = std::move(request.prompt),
                   .max_tokens = request.max_tokens,
                   .history_tokens = request.history_tokens,
                   .compute_from = scores_from > 0 ? scores_from - 1 : -1,
                   .cache_key = request.cache.key(),
                   .tenant = request.tenant,
                   .tenant_weight = request.tenant_weight,
                   .priority = options_.priorities ? request.priority : 0,
                   .deadline = request.deadline});
  }

  void answer(const Look& look) {
    steps_->drain();
    (*look.look)({*arena_, *cache_, *planner_, executor_->bytes()});
    publish_status();
    look.done->set_value();
  }

  void publish_status() {
    EngineStatus status{.geometry = arena_->geometry(),
                        .arena = arena_->usage(),
                        .arena_counters = arena_->counters(),
                        .cache = cache_->usage(),
                        .cache_counters = cache_->counters(),
                        .planner = planner_->counters(),
                        .grid_tokens = cache_->options().grid_tokens,
                        .queued = static_cast<std::int64_t>(planner_->queued()),
                        .running = static_cast<std::int64_t>(planner_->running())};
    std::lock_guard lock(mutex_);
    status_ = status;
  }

  Verdict on_token(RequestId id, const SampledToken& token) override {
    Live& live = live_.at(id);
    live.last_token = clock_.now();
    if (live.first_token == TimePoint{}) live.first_token = live.last_token;
    const bool enough = live.sink->on_token(token) == TokenSink::Verdict::kStop;
    const bool stop_id =
        std::find(live.stop_ids.begin(), live.stop_ids.end(), token.id) != live.stop_ids.end();
    return enough || stop_id ? Verdict::kStop : Verdict::kContinue;
  }

  void on_end(const EndedRequest& ended) override {
    const auto found = live_.find(ended.id);
    Live live = std::move(found->second);
    live_.erase(found);
    const RequestView& view = ended.view;
    GenerateResult result{.reason = ended.reason, .status = ended.status, .usage = {}};
    result.usage.prompt_tokens = view.prompt_tokens;
    result.usage.completion_tokens = view.answer_tokens;
    result.usage.cache = view.cache;
    result.usage.reprocessed_tokens = view.reprocessed_tokens;
    if (view.admitted != TimePoint{}) {
      result.usage.queue_ms = milliseconds(live.submitted, view.admitted);
    }
    if (live.first_token != TimePoint{}) {
      result.usage.prefill_ms = milliseconds(view.admitted, live.first_token);
      result.usage.decode_ms = milliseconds(live.first_token, live.last_token);
    }
    live.sink->on_finish(result);
    live.sink = nullptr;
    bool idle = false;
    {
      std::lock_guard lock(mutex_);
      idle = --alive_ == 0;
    }
    if (idle) idle_.notify_all();
  }

  const std::shared_ptr<const Model> model_;
  const EngineOptions options_;
  const Clock& clock_;

  mutable std::mutex mutex_;  // guards from here to status_
  std::condition_variable changed_;
  std::condition_variable idle_;
  std::vector<Submission> submitted_;
  std::vector<RequestId> cancelled_;
  std::uint64_t last_id_ = 0;
  bool draining_ = false;
  bool shutting_down_ = false;
  std::int64_t alive_ = 0;  // submitted and not finished
  TimePoint progress_ = {};
  std::vector<Look> looks_;
  EngineStatus status_;

  // The loop thread's own.
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<PrefixCache> cache_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<ModelExecutor> executor_;
  std::unique_ptr<StepLoop> steps_;
  std::unordered_map<RequestId, Live> live_;

  std::thread thread_;
};

Engine::Engine(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const Model> model,
                                               const EngineOptions& options, const Clock& clock) {
  auto loop = std::make_unique<Loop>(std::move(model), options, clock);
  TRY(loop->start());
  return std::unique_ptr<Engine>(new Engine(std::move(loop)));
}

const Model& Engine::model() const { return loop_->model(); }
Result<RequestId> Engine::submit(GenerateRequest request, std::unique_ptr<TokenSink> sink) {
  return loop_->submit(std::move(request), std::move(sink));
}
void Engine::cancel(RequestId id) { loop_->cancel(id); }
std::int64_t Engine::max_requests() const { return loop_->max_requests(); }
void Engine::start_draining() { loop_->start_draining(); }
bool Engine::draining() const { return loop_->draining(); }
void Engine::wait_idle() { loop_->wait_idle(); }
EngineStatus Engine::status() const { return loop_->status(); }
EngineProgress Engine::progress() const { return loop_->progress(); }
void Engine::inspect(const std::function<void(EngineInternals)>& look) { loop_->inspect(look); }
void Engine::flush_cache() {
  inspect([](EngineInternals inside) {
    while (inside.cache.evict_one()) {
    }
  });
}

}  // namespace tandem
