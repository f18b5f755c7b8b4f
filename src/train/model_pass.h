// A whole model forward and back over a packed batch.
//
// Forward keeps one matrix a layer, the residual stream that enters it; the streams that Attention
// Residuals bank are among them and are kept by reference. Backward goes through the layers from
// last to first, computes one layer's intermediates again and then its gradients, so that memory is
// (layers + one layer's intermediates), not the sum of all intermediates. Logits exist in pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/kernel_set.h"
#include "model/model_spec.h"
#include "model/weights.h"
#include "train/operators.h"
#include "train/ops/head.h"
#include "train/trained_weights.h"

namespace tandem::train {

// A row of a batch and the token that is scored there: the one after it in its sequence.
struct ScoredRow {
  std::int64_t row = 0;
  TokenId target = 0;
};

// Experts to use instead of the routers' own choice, as they were recorded when tokens were drawn:
// for each layer [rows, top_k] ids, or nothing for a layer without experts. A row that begins with
// kNoRoute has no record. Weights still come from the trainer's own logits.
using RecordedRoutes = std::vector<std::vector<std::int32_t>>;
inline constexpr std::int32_t kNoRoute = -1;

// Sequences one after the other. A result for a sequence does not depend on its neighbours.
struct PackedBatch {
  std::vector<TokenId> tokens;
  std::vector<PackedSequence> sequences;  // they tile `tokens`
  std::vector<ScoredRow> scored;          // ascending rows
  RecordedRoutes routes;                  // empty, or one entry a layer

  // Appends a sequence that is scored from token `first_scored` >= 1 on (a prompt's length); the
  // last token is a target only, so the sequence takes tokens.size() - 1 rows. At least 2 tokens.
  void add(std::span<const TokenId> sequence, std::int64_t first_scored);
};

// The model, its adapters and its gradients are the caller's and outlive the pass. One thread at a
// time. T is float for training (the engine's kernels) and double for checking gradients.
template <typename T>
class ModelPass {
 public:
  ModelPass(const ModelSpec& spec, const ModelWeights& weights, const TrainedWeights<T>& trained,
            const KernelSet& kernels, Precision precision, ThreadTeam& team);
  ~ModelPass();
  ModelPass(const ModelPass&) = delete;
  ModelPass& operator=(const ModelPass&) = delete;

  // Scores of batch.scored, in order, at a sampling temperature. Keeps what backward needs; `batch`
  // has to stay until then.
  std::vector<TokenScore> forward(const PackedBatch& batch, float temperature);

  // How often each expert of a layer was chosen in the last forward, [experts]; empty for a layer
  // without any.
  const std::vector<std::int64_t>& expert_load(std::size_t layer) const;

  // The experts of the last forward, for a later replay.
  const RecordedRoutes& routes() const;

  // Adds the gradients of sum_i <gradients[i], scores[i]> of the last forward.
  void backward(std::span<const TokenScoreGradient> gradients);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::train
