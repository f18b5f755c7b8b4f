#include "schedule/planner_scenario.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::size_t kTalks = 16;  // that follow-ups choose from

template <typename... Args>
Result<void> wrong(fmt::format_string<Args...> format, Args&&... args) {
  return fail(StatusCode::kInternal, format, std::forward<Args>(args)...);
}

std::uint32_t scramble(std::uint32_t value) {
  value = (value ^ 61) ^ (value >> 16);
  value *= 9;
  value ^= value >> 4;
  value *= 0x27D4'EB2D;
  return value ^ (value >> 15);
}

std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

std::ostream& operator<<(std::ostream& stream, const ScenarioEvent& event) {
  constexpr const char* kNames[] = {"add", "follow up", "turn", "cancel", "drain", "wait"};
  return stream << kNames[event.kind] << ' ' << event.a << ' ' << event.b;
}

std::ostream& operator<<(std::ostream& stream, const ScenarioSetup& setup) {
  const SchedulerSetup& s = setup.scheduler;
  return stream << fmt::format(
             "{} states, {} pages of {}, grid {}, running {}, chunk {}, track {}, spacing {}, "
             "retractions {}, cache {}, {}, stop {}",
             s.states, s.pages, s.page_tokens, s.grid_tokens, s.planner.max_running,
             s.planner.prefill_chunk, s.planner.track_interval, s.planner.min_spacing_tokens,
             s.planner.max_retractions, s.planner.use_cache,
             s.mode == LoopMode::kSimple ? "simple" : "overlapped", setup.stop_token.value_or(-1));
}

Scenario::Scenario(const ScenarioSetup& setup)
    : setup_(setup),
      at_(setup.scheduler),
      checker_(at_, setup.scheduler),
      executor_(*at_.executor,
                [this](const StepPlan& plan) {
                  if (setup_.keep_plans) plans_.push_back(plan);
                  if (verdict_) verdict_ = checker_.check(plan);
                }),
      empty_(at_.arena->usage()) {
  at_.stop_token = setup.stop_token;
  at_.loop = std::make_unique<StepLoop>(*at_.planner, executor_, at_, setup.scheduler.mode);
}

// --- What happens -------------------------------------------------------------------------------

Result<void> Scenario::apply(const ScenarioEvent& event) {
  const std::int64_t capacity = at_.planner->capacity_tokens();
  const std::int64_t longest = std::min<std::int64_t>(capacity - 1, 150);
  switch (event.kind) {
    case ScenarioEvent::kAdd: {
      // One in eight is as long as the memory allows.
      const std::int64_t tokens = event.b % 8 == 0
                                      ? std::min<std::int64_t>(capacity - 1, 600)
                                      : 1 + static_cast<std::int64_t>(scramble(event.b)) % longest;
      return add(text(event.a, tokens), event.a, event.b);
    }
    case ScenarioEvent::kFollowUp: {
      if (talks_.empty()) return {};
      std::vector<TokenId> prompt = talks_[event.a % talks_.size()];
      for (std::uint32_t i = 0; i <= event.b % 20; ++i) {
        prompt.push_back(static_cast<TokenId>(200 + (event.a + i) % 3));
      }
      return add(std::move(prompt), event.a, event.b);
    }
    case ScenarioEvent::kTurn: {
      bool busy = true;
      for (std::uint32_t i = 0; i <= event.a % 4 && busy; ++i) TRY(turn(busy));
      return {};
    }
    case ScenarioEvent::kCancel: {
      if (open_.empty()) return {};
      auto& [id, asked] = *std::next(open_.begin(), event.a % open_.size());
      asked.is_cancelled = true;
      at_.loop->cancel(id);
      at_.loop->cancel(id);
      steps_before_ = at_.planner->counters().steps;
      return check_ends();
    }
    case ScenarioEvent::kDrain:
      at_.loop->drain();
      if (at_.planner->steps_in_flight() != 0) return wrong("a drained loop has steps in flight");
      return check_ends();
    case ScenarioEvent::kWait:
      at_.clock.advance(std::chrono::minutes(event.a % 8));
      return {};
  }
  return {};
}

// A way through a tree of texts, three branches at every fork, forks at any distance.
std::vector<TokenId> Scenario::text(std::uint32_t way, std::int64_t tokens) const {
  std::vector<TokenId> text;
  std::uint32_t path = 1;
  while (static_cast<std::int64_t>(text.size()) < tokens) {
    path = 4 * path + way % 3;
    way = way < 3 ? scramble(path) : way / 3;
    const std::uint32_t length = 1 + scramble(path) % 40;
    for (std::uint32_t i = 0; i < length; ++i) {
      text.push_back(static_cast<TokenId>(scramble(path + 7919 * i) % 151));
    }
  }
  text.resize(index(tokens));
  return text;
}

Result<void> Scenario::add(std::vector<TokenId> prompt, std::uint32_t a, std::uint32_t b) {
  const auto tokens = static_cast<std::int64_t>(prompt.size());
  const std::int64_t capacity = at_.planner->capacity_tokens();
  if (at_.planner->check(tokens).has_value() != (tokens < capacity)) {
    return wrong("a prompt of {} tokens was judged wrongly, {} fit", tokens, capacity);
  }
  if (tokens >= capacity) return {};
  const RequestId id{++last_id_};
  const std::int64_t max_tokens = 1 + scramble(a ^ b) % (b % 5 == 0 ? 200 : 40);
  at_.planner->add({.id = id,
                    .prompt = prompt,
                    .max_tokens = max_tokens,
                    .history_tokens = a % 4 == 0 ? tokens / 2 : 0,
                    .cache_key = CacheNamespace{.salt = b % 7 == 0 ? "mine" : ""}.key()});
  open_[id] = {.prompt = std::move(prompt), .max_tokens = std::min(max_tokens, capacity - tokens)};
  steps_before_ = at_.planner->counters().steps;
  return {};
}

Result<void> Scenario::turn(bool& busy) {
  checker_.before_plan();
  busy = at_.loop->turn();
  at_.clock.advance(std::chrono::milliseconds(1));
  TRY(std::exchange(verdict_, {}));
  TRY(checker_.after_plan());
  if (!busy && !open_.empty()) {
    bool all_ended = true;
    for (const auto& [id, asked] : open_) all_ended = all_ended && at_.answers[id].ends > 0;
    if (!all_ended) return wrong("the loop is idle with {} requests", at_.planner->size());
  }
  TRY(check_progress());
  TRY(check_ends());
  return ++turns_ % setup_.check_every == 0 ? check_all() : Result<void>{};
}

// --- What must hold -----------------------------------------------------------------------------

// A step without a token computes a whole chunk of prompts. So tokens come at least when every
// request has computed all that the memory holds, and nobody gives way for ever.
Result<void> Scenario::check_progress() {
  const PlannerOptions& options = setup_.scheduler.planner;
  const std::int64_t chunk =
      options.prefill_chunk - options.prefill_chunk % setup_.scheduler.grid_tokens;
  const std::int64_t limit = 4 + 2 * options.max_running +
                             options.max_running * (at_.planner->capacity_tokens() / chunk + 1);
  const std::int64_t steps = at_.planner->counters().steps;
  if (at_.emitted != emitted_before_) {
    emitted_before_ = at_.emitted;
    steps_before_ = steps;
  }
  if (steps - steps_before_ > limit) return wrong("{} steps without a token", limit);
  return {};
}

Result<void> Scenario::check_ends() {
  for (auto at = at_.answers.begin(); at != at_.answers.end();) {
    const auto asked = open_.find(at->first);
    if (asked == open_.end()) return wrong("{} is heard of after its end", at->first.value);
    if (at->second.ends == 0) {
      ++at;
      continue;
    }
    TRY(check_end(asked->first, asked->second));
    std::vector<TokenId> talk = asked->second.prompt;
    talk.insert(talk.end(), at->second.tokens.begin(), at->second.tokens.end());
    if (talks_.size() < kTalks) talks_.emplace_back();
    talks_[asked->first.value % talks_.size()] = std::move(talk);
    open_.erase(asked);
    at = at_.answers.erase(at);
  }
  return {};
}

Result<void> Scenario::check_end(RequestId id, const Asked& asked) {
  const auto& [tokens, ends, ended] = at_.answers[id];
  if (ends != 1 || at_.planner->contains(id)) return wrong("{} ended {} times", id.value, ends);
  std::vector<TokenId> expected = FakeExecutor::answer(asked.prompt, asked.max_tokens);
  FinishReason reason = FinishReason::kLength;
  if (setup_.stop_token) {
    const auto stop = std::find(expected.begin(), expected.end(), *setup_.stop_token);
    if (stop != expected.end()) {
      expected.erase(stop + 1, expected.end());
      reason = FinishReason::kStop;
    }
  }
  if (asked.is_cancelled && ended.reason == FinishReason::kCancelled) {
    reason = FinishReason::kCancelled;
    expected.resize(std::min(expected.size(), tokens.size()));
  }
  if (ended.reason != reason) {
    return wrong("{} ended by {}, not {}: {}", id.value, static_cast<int>(ended.reason),
                 static_cast<int>(reason), ended.status.message);
  }
  if (tokens != expected) return wrong("{} got another answer", id.value);
  if (ended.view.answer_tokens != static_cast<std::int64_t>(tokens.size())) {
    return wrong("{} ended with {} tokens, not {}", id.value, ended.view.answer_tokens,
                 tokens.size());
  }
  return {};
}

Result<void> Scenario::check_all() const {
  if (at_.executor->faults() != 0) return wrong("{} rows were wrong", at_.executor->faults());
  if (at_.planner->running() > checker_.active()) {
    return wrong("{} own memory, {} were in a plan", at_.planner->running(), checker_.active());
  }
  // One that is computed and one on its way: older ones go when the next is there.
  const std::int64_t snapshots =
      at_.arena->usage().states[static_cast<std::size_t>(StateOwner::kPing)];
  if (snapshots > 2 * static_cast<std::int64_t>(at_.planner->running())) {
    return wrong("{} requests keep {} snapshots", at_.planner->running(), snapshots);
  }
  return at_.planner->integrity_check();
}

Result<void> Scenario::finish() {
  for (bool busy = true; busy;) TRY(turn(busy));
  TRY(check_ends());
  TRY(check_all());
  if (at_.planner->size() != 0 || at_.planner->steps_in_flight() != 0 || !open_.empty()) {
    return wrong("{} requests are left, {} steps, {} without end", at_.planner->size(),
                 at_.planner->steps_in_flight(), open_.size());
  }
  const PrefixUsage cached = at_.cache->usage();
  if (cached.locks != 0) return wrong("{} locks are left", cached.locks);
  at_.arena->compact_all();
  const ArenaUsage usage = at_.arena->usage();
  const ArenaGeometry& geometry = at_.arena->geometry();
  if (usage.hole_bytes != 0 || usage.gap_bytes != geometry.usable_bytes() -
                                                      cached.states * geometry.state_bytes -
                                                      cached.pages * geometry.page_bytes) {
    return wrong("{} bytes of holes and {} of gap are left beside {} states and {} pages",
                 usage.hole_bytes, usage.gap_bytes, cached.states, cached.pages);
  }
  while (at_.cache->evict_one()) {
  }
  at_.arena->compact_all();
  if (at_.arena->usage() != empty_) return wrong("the arena is not as it was");
  if (at_.cache->usage().nodes != 0 || at_.cache->usage().namespaces != 0) {
    return wrong("{} nodes are left", at_.cache->usage().nodes);
  }
  return check_all();
}

}  // namespace tandem
