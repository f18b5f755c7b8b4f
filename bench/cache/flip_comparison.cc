#include "cache/flip_comparison.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::int64_t kStateBytes = 56'171'520;  // 69 layers of 12 heads
constexpr std::int64_t kPageBytes = 64 * 27'648;  // latent rows of 24 layers
constexpr std::int64_t kLongTokens = 500'000;
constexpr std::int64_t kLongClients = 4;

constexpr FlipLoad kShort = {.name = "64 short",
                             .clients = 64,
                             .least_prompt = 500,
                             .most_prompt = 2500,
                             .least_answer = 200,
                             .most_answer = 1000};
constexpr FlipLoad kLong = {.name = "4 x 500K",
                            .clients = kLongClients,
                            .least_prompt = kLongTokens - 20'000,
                            .most_prompt = kLongTokens - 8'000,
                            .least_answer = 4'000,
                            .most_answer = 8'000};

// How much worse than the best split the worst phase is.
double worst_phase(const std::vector<PhaseResult>& of, const std::vector<PhaseResult>& best) {
  double worst = 1;
  for (std::size_t i = 0; i < of.size(); ++i) {
    worst = std::min(worst, of[i].answer_tokens_a_second / best[i].answer_tokens_a_second);
  }
  return worst;
}

}  // namespace

FlipComparison compare_flips(std::int64_t page_tokens, double phase_ms) {
  FlipOptions options{.page_tokens = page_tokens, .phase_ms = phase_ms};
  options.geometry = {.state_bytes = kStateBytes, .page_bytes = kPageBytes};
  const std::int64_t pages = (kLongTokens + page_tokens - 1) / page_tokens;
  options.geometry.budget_bytes =
      options.geometry.sink_bytes() +
      kLongClients * (options.states_a_request * kStateBytes + pages * kPageBytes);
  FlipComparison result;
  result.phases = {kShort, kLong, kShort, kLong};
  result.joint = simulate_flips(*make_joint_memory(options.geometry), result.phases, options);

  std::vector<std::vector<PhaseResult>> splits;
  std::vector<std::int64_t> slots;
  const auto most_slots = static_cast<std::int64_t>(kShort.clients) * options.states_a_request;
  for (std::int64_t states = 4; states <= most_slots; states += 4) {
    const auto memory = make_split_memory(options.geometry, states);
    splits.push_back(simulate_flips(*memory, result.phases, options));
    slots.push_back(states);
  }
  for (std::size_t phase = 0; phase < result.phases.size(); ++phase) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < splits.size(); ++i) {
      const double now = splits[i][phase].answer_tokens_a_second;
      if (now > splits[best][phase].answer_tokens_a_second) best = i;
    }
    result.best_split.push_back(splits[best][phase]);
    result.best_states.push_back(slots[best]);
  }
  std::size_t fixed = 0;
  for (std::size_t i = 1; i < splits.size(); ++i) {
    if (worst_phase(splits[i], result.best_split) > worst_phase(splits[fixed], result.best_split)) {
      fixed = i;
    }
  }
  result.fixed_split = splits[fixed];
  result.fixed_states = slots[fixed];
  return result;
}

}  // namespace tandem
