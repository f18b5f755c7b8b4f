// The stages of a forward step, and who is told when one begins.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tandem {

// What a step spends its time on. A layer passes through several, some more than once.
enum class Stage {
  kEmbed,
  kNorms,           // norms of sub-layers, Attention-Residual mixes, sums into the stream
  kKdaProjections,  // every matrix of a KDA layer
  kKdaConvGates,    // short convolution, decay and beta, output norm and gate
  kKdaRecurrence,
  kMlaProjections,  // every matrix of an MLA layer but kv_b
  kMlaAttention,    // rows stored and read, kv_b absorbed
  kFfnProjections,  // every matrix of a feed-forward block but the routed experts
  kRouter,          // the choice of experts
  kExperts,         // routed ones
  kHead,
};
inline constexpr std::size_t kStageCount = static_cast<std::size_t>(Stage::kHead) + 1;

constexpr std::string_view stage_name(Stage stage) {
  constexpr std::array<std::string_view, kStageCount> kNames = {"embed",
                                                                "norms and mixes",
                                                                "kda projections",
                                                                "kda conv and gates",
                                                                "kda recurrence",
                                                                "mla projections",
                                                                "mla attention",
                                                                "ffn projections",
                                                                "router",
                                                                "experts",
                                                                "head"};
  return kNames[static_cast<std::size_t>(stage)];
}

// Told at every change of stage, on the thread that runs the step: all until the next call, or the
// end of the step, belongs to `stage`.
class StageObserver {
 public:
  virtual ~StageObserver() = default;
  virtual void on_stage(Stage stage) = 0;
};

}  // namespace tandem
