#include "cache/comparison.h"

#include "cache/offline.h"

namespace tandem {
namespace {

constexpr std::int64_t kStateBytes = 56'171'520;  // 69 layers of 12 heads
constexpr std::int64_t kPageBytes = 64 * 27'648;  // latent rows of 24 layers

PoolPolicy best_split(const AgentWorkload& workload, std::int64_t grid_tokens, double budget,
                      double state_tokens) {
  PoolPolicy best;
  double most = -1;
  for (const RowOrder rows : {RowOrder::kOldest, RowOrder::kTimeSaved}) {
    for (const std::int64_t spacing : {8192, 32'768}) {
      for (int percent = 5; percent <= 75; percent += 5) {
        const PoolPolicy policy{.rows = rows,
                                .state_share = percent / 100.0,
                                .grid_tokens = grid_tokens,
                                .spacing_tokens = spacing};
        const double hit = replay_pools(workload, policy, budget, state_tokens).hit_tokens;
        if (hit <= most) continue;
        most = hit;
        best = policy;
      }
    }
  }
  return best;
}

}  // namespace

Deployment tensor_parallel_8() {
  return {.name = "TP8",
          .shape = {.state_bytes = kStateBytes, .page_bytes = kPageBytes},
          .share = 0.15};
}

Deployment context_parallel_8(std::int64_t page_tokens) {
  return {.name = page_tokens == 512 ? "DCP8" : "DCP8, fine grid",
          .shape = {.state_bytes = kStateBytes,
                    .page_bytes = kPageBytes / 512 * page_tokens,
                    .page_tokens = page_tokens,
                    .grid_tokens = page_tokens},
          .share = 0.45};
}

Comparison compare(const AgentWorkload& workload, const Deployment& deployment) {
  const CacheShape& shape = deployment.shape;
  const double state = shape.state_tokens();
  const auto distinct = static_cast<double>(workload.distinct_tokens());
  const double budget = deployment.share * distinct;
  // Four states a turn are more than are ever planted.
  const double everything = distinct + 4 * state * static_cast<double>(workload.turns.size());
  Comparison result;
  result.infinite = replay_cache(workload, {.shape = shape, .budget_tokens = everything}).earnings;
  result.reference =
      replay_pools(workload, reference_like_policy(shape.grid_tokens), budget, state);
  result.split = best_split(workload, shape.grid_tokens, budget, state);
  result.best_split = replay_pools(workload, result.split, budget, state);
  result.joint = replay_cache(workload, {.shape = shape, .budget_tokens = budget});
  const OfflineProblem problem{.budget_tokens = budget,
                               .state_tokens = state,
                               .grid_tokens = shape.grid_tokens,
                               .first_counted = warm_up(workload)};
  result.offline = greedy_offline(workload, problem);
  result.offline_bound = offline_bound(workload, problem) / result.offline.prompt_tokens;
  return result;
}

}  // namespace tandem
