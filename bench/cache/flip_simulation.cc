#include "cache/flip_simulation.h"

#include <algorithm>
#include <deque>
#include <random>

namespace tandem {
namespace {

struct Request {
  std::uint64_t id = 0;
  std::size_t phase = 0;
  std::int64_t prompt = 0;
  std::int64_t answer = 0;
  std::int64_t computed = 0;  // tokens of prompt and answer with rows

  bool decodes() const { return computed >= prompt; }
};

class Simulation {
 public:
  Simulation(FlipMemory& memory, const FlipOptions& options)
      : memory_(memory), options_(options), random_(options.seed) {}

  PhaseResult run_phase(const FlipLoad& load) {
    load_ = &load;
    ++phase_;
    waiting_.clear();
    const double end = now_ms_ + options_.phase_ms;
    const auto own = [this](const Request& r) { return r.phase == phase_; };
    for (std::size_t i = 0; i < load.clients; ++i) waiting_.push_back(next_request());
    PhaseResult sum;
    while (now_ms_ < end) {
      while (!waiting_.empty() && admit(waiting_.front())) waiting_.pop_front();
      const double before = now_ms_;
      step(sum);
      sum.running += static_cast<double>(running_.size()) * (now_ms_ - before);
      // The clients of the phase before have gone; the others ask again.
      std::size_t answered = 0;
      std::erase_if(running_, [&](const Request& r) {
        if (r.computed < r.prompt + r.answer) return false;
        memory_.leave(r.id);
        answered += own(r) ? 1 : 0;
        return true;
      });
      for (; answered > 0; --answered) waiting_.push_back(next_request());
    }
    const double seconds = options_.phase_ms / 1000;
    sum.answer_tokens_a_second /= seconds;
    sum.prompt_tokens_a_second /= seconds;
    sum.running /= options_.phase_ms;
    return sum;
  }

 private:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }

  Request next_request() {
    return {.id = next_id_++,
            .phase = phase_,
            .prompt = between(load_->least_prompt, load_->most_prompt),
            .answer = between(load_->least_answer, load_->most_answer)};
  }

  std::int64_t pages(std::int64_t tokens) const {
    return (tokens + options_.page_tokens - 1) / options_.page_tokens;
  }

  bool admit(const Request& request) {
    const EntryCounts need{.states = options_.states_a_request,
                           .pages = pages(request.prompt + request.answer)};
    if (!memory_.admit(request.id, need)) return false;
    running_.push_back(request);
    return true;
  }

  void step(PhaseResult& sum) {
    const StepCost& cost = options_.cost;
    const double row_bytes = static_cast<double>(options_.geometry.page_bytes) /
                             static_cast<double>(options_.page_tokens);
    std::int64_t prompt_budget = options_.prompt_tokens_a_step;
    double ms = cost.fixed_ms;
    for (Request& request : running_) {
      if (request.decodes()) {
        ms += cost.sequence_ms +
              static_cast<double>(request.computed) * row_bytes / cost.bytes_per_ms;
        ++request.computed;
        sum.answer_tokens_a_second += 1;
      } else {
        const std::int64_t chunk = std::min(prompt_budget, request.prompt - request.computed);
        prompt_budget -= chunk;
        ms += static_cast<double>(chunk) * cost.prompt_token_ms;
        request.computed += chunk;
        sum.prompt_tokens_a_second += static_cast<double>(chunk);
      }
      memory_.grow(request.id, pages(request.computed));
    }
    const std::int64_t moved = memory_.take_moved_bytes();
    sum.moved_bytes += moved;
    now_ms_ += ms + 2 * static_cast<double>(moved) / cost.bytes_per_ms;
  }

  FlipMemory& memory_;
  const FlipOptions options_;
  std::mt19937_64 random_;
  const FlipLoad* load_ = nullptr;
  std::size_t phase_ = 0;
  std::uint64_t next_id_ = 0;
  double now_ms_ = 0;
  std::deque<Request> waiting_;
  std::vector<Request> running_;
};

}  // namespace

std::vector<PhaseResult> simulate_flips(FlipMemory& memory, const std::vector<FlipLoad>& phases,
                                        const FlipOptions& options) {
  Simulation simulation(memory, options);
  std::vector<PhaseResult> results;
  for (const FlipLoad& load : phases) results.push_back(simulation.run_phase(load));
  return results;
}

}  // namespace tandem
