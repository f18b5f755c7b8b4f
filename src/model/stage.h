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
  kRouter,          // its matrix and the choice of experts
  kExperts,         // routed ones
  kLatent,          // the way into the experts' narrower width and back
  kDenseFfn,        // shared experts, and feed-forward blocks without routing
  kHead,
};
inline constexpr std::size_t kStageCount = static_cast<std::size_t>(Stage::kHead) + 1;

constexpr std::string_view stage_name(Stage stage) {
  constexpr std::array<std::string_view, kStageCount> kNames = {
      "embed",          "norms and mixes", "kda projections",  "kda conv and gates",
      "kda recurrence", "mla projections", "mla attention",    "router",
      "experts",        "latent",          "dense and shared", "head"};
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
