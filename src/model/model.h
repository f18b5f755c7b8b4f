// The forward pass: tokens in, logits out, memory handed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/status.h"
#include "kernels/kernel_set.h"
#include "model/memory_layout.h"
#include "model/model_spec.h"
#include "model/stage.h"
#include "model/weights.h"
#include "tensor/scratch.h"
#include "tensor/thread_team.h"

namespace tandem {

// One request's part of a step: its next tokens, and the memory that holds everything before them.
struct SequenceInput {
  std::span<const TokenId> tokens;  // >= 1, ids below the vocabulary size
  std::int64_t start = 0;           // position of tokens[0]; latent rows [0, start) are valid
  std::byte* state = nullptr;  // the state after token start-1 (zeros for start = 0); overwritten
  std::span<std::byte* const> pages;  // cover positions [0, start + tokens.size())
  std::int64_t logit_rows = 1;        // logits are wanted for this many last tokens, possibly 0
};

// Sees intermediate values of a step; for tests and diagnosis.
class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  // The residual stream after a layer, [T, hidden], rows in the order of the batch.
  virtual void on_layer(std::int64_t layer, ConstActivations stream) = 0;
  // The experts chosen in a layer: [T, top_k], ascending in each row.
  virtual void on_experts(std::int64_t layer, std::span<const std::int32_t> ids) = 0;
};

struct ForwardBatch {
  std::span<const SequenceInput> sequences;
  std::int64_t page_tokens = 0;
  ForwardObserver* observer = nullptr;
  StageObserver* stages = nullptr;

  std::int64_t rows() const;        // tokens in all
  std::int64_t logit_rows() const;  // rows of logits in all
};

// Weights, specification and kernels of one model. Immutable: everything a request changes is in
// its SequenceInput. Thread-safe as long as each caller brings its own scratch and team.
class Model {
 public:
  Model(ModelSpec spec, ModelWeights weights, Precision precision, const KernelSet& kernels);

  // Reads configuration and weights from a checkpoint folder.
  static Result<std::unique_ptr<Model>> load(const std::filesystem::path& folder,
                                             Precision precision, const KernelSet& kernels,
                                             const LoadOptions& options = {});

  const ModelSpec& spec() const { return spec_; }
  const ModelWeights& weights() const { return weights_; }
  const MemoryLayout& memory() const { return memory_; }
  Precision precision() const { return precision_; }

  // Runs one step. `logits` is [batch.logit_rows(), vocab_size], sequence after sequence. Advances
  // every sequence's state and writes its latent rows. In Precision::kExact a sequence's logits,
  // state and rows are bit-equal however its tokens are cut into steps and whatever else is in the
  // batch.
  void forward(const ForwardBatch& batch, Scratch& scratch, ThreadTeam& team,
               Activations logits) const;

 private:
  ModelSpec spec_;
  ModelWeights weights_;
  Precision precision_;
  const KernelSet& kernels_;
  MemoryLayout memory_;
};

}  // namespace tandem
