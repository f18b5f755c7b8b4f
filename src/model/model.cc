#include "model/model.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "model/config.h"
#include "model/step.h"
#include "model/weight_tiling.h"

namespace tandem {
namespace {

// The residual stream of one step. Without Attention Residuals the bank stays empty and a sub-layer
// reads the stream itself; with them it reads a mix of the banked streams and the current one.
struct Residual {
  Activations stream;                  // p [T, hidden]
  std::vector<ConstActivations> bank;  // b_0, b_1, ... [T, hidden] each
  Activations mixed;                   // what the sub-layer sees, before its norm
};

ConstActivations mix(Step& step, Residual& residual, const WeightVector& query) {
  if (residual.bank.empty()) return residual.stream;
  step.kernels.residual_mix({.bank = residual.bank.data(),
                             .bank_rows = static_cast<std::int64_t>(residual.bank.size()),
                             .stream = residual.stream,
                             .query = query.data(),
                             .eps = step.spec.norm_eps,
                             .y = residual.mixed},
                            step.team);
  return residual.mixed;
}

void attention(Step& step, std::int64_t layer, const LayerSpec& spec, const LayerWeights& weights,
               ConstActivations x, Activations y) {
  if (const auto* kda = std::get_if<KdaSpec>(&spec.attention)) {
    kda_attention(step, layer, *kda, std::get<KdaWeights>(weights.attention), x, y);
  } else {
    mla_attention(step, layer, std::get<MlaSpec>(spec.attention),
                  std::get<MlaWeights>(weights.attention), x, y);
  }
}

void ffn(Step& step, std::int64_t layer, const LayerSpec& spec, const LayerWeights& weights,
         ConstActivations x, Activations y) {
  if (const auto* moe = std::get_if<MoeSpec>(&spec.ffn)) {
    moe_ffn(step, layer, *moe, std::get<MoeWeights>(weights.ffn), x, y);
  } else {
    dense_ffn(step, std::get<FfnWeights>(weights.ffn), x, y);
  }
}

void run_layer(Step& step, std::int64_t layer, const LayerWeights& weights, Residual& residual,
               Activations normed, Activations out) {
  const LayerSpec& spec = step.spec.layers[static_cast<std::size_t>(layer)];
  const float eps = step.spec.norm_eps;

  step.enter(Stage::kNorms);
  step.rms_norm(mix(step, residual, weights.attention_mix), weights.attention_norm, eps, normed);
  attention(step, layer, spec, weights, normed, out);

  step.enter(Stage::kNorms);
  if (spec.starts_block) {
    // The raw stream, not the mix, is banked; the new block starts from the attention output alone.
    residual.bank.push_back(residual.stream);
    residual.stream = step.scratch.take(out.rows, out.columns);
    for (std::int64_t t = 0; t < out.rows; ++t) {
      std::copy_n(out.row(t), out.columns, residual.stream.row(t));
    }
  } else {
    step.kernels.add({.a = residual.stream, .b = out, .y = residual.stream}, step.team);
  }

  step.rms_norm(mix(step, residual, weights.ffn_mix), weights.ffn_norm, eps, normed);
  ffn(step, layer, spec, weights, normed, out);

  step.enter(Stage::kNorms);
  step.kernels.add({.a = residual.stream, .b = out, .y = residual.stream}, step.team);
}

std::vector<TokenId> batch_tokens(const ForwardBatch& batch) {
  std::vector<TokenId> ids;
  for (const SequenceInput& sequence : batch.sequences) {
    ids.insert(ids.end(), sequence.tokens.begin(), sequence.tokens.end());
  }
  return ids;
}

// The rows whose logits are wanted, packed.
Activations wanted_rows(Step& step, ConstActivations x) {
  Activations wanted = step.scratch.take(step.batch.logit_rows(), x.columns);
  std::int64_t end_row = 0;
  std::int64_t next = 0;
  for (const SequenceInput& sequence : step.batch.sequences) {
    end_row += static_cast<std::int64_t>(sequence.tokens.size());
    for (std::int64_t row = end_row - sequence.logit_rows; row < end_row; ++row) {
      std::copy_n(x.row(row), x.columns, wanted.row(next++));
    }
  }
  return wanted;
}

}  // namespace

std::int64_t ForwardBatch::rows() const {
  std::int64_t sum = 0;
  for (const SequenceInput& sequence : sequences)
    sum += static_cast<std::int64_t>(sequence.tokens.size());
  return sum;
}

std::int64_t ForwardBatch::logit_rows() const {
  std::int64_t sum = 0;
  for (const SequenceInput& sequence : sequences) sum += sequence.logit_rows;
  return sum;
}

Model::Model(ModelSpec spec, ModelWeights weights, Precision precision, const KernelSet& kernels)
    : spec_(std::move(spec)),
      weights_(std::move(weights)),
      precision_(precision),
      kernels_(kernels),
      memory_(memory_layout(spec_, precision)) {}

Result<std::unique_ptr<Model>> Model::load(const std::filesystem::path& folder, Precision precision,
                                           const KernelSet& kernels, const LoadOptions& options) {
  ModelSpec spec = TRY(read_config(folder));
  Checkpoint checkpoint = TRY(Checkpoint::open(folder));
  ModelWeights weights = TRY(load_weights(spec, std::move(checkpoint), options));
  if (kernels.wants_tiles) {
    // Products with experts in tiles round their activations.
    const bool tile_experts = precision == Precision::kDefault;
    TRY(tile_weights(spec, tile_experts, options.memory_bytes, weights));
  }
  return std::make_unique<Model>(std::move(spec), std::move(weights), precision, kernels);
}

void Model::forward(const ForwardBatch& batch, Scratch& scratch, ThreadTeam& team,
                    Activations logits) const {
  CHECK(logits.rows == batch.logit_rows() && logits.columns == spec_.vocab_size,
        "logits are [{}, {}], wanted [{}, {}]", logits.rows, logits.columns, batch.logit_rows(),
        spec_.vocab_size);
  Scratch::Frame frame(scratch);
  Step step{spec_, batch, kernels_, precision_, memory_, scratch, team};
  const std::int64_t rows = batch.rows();

  step.enter(Stage::kEmbed);
  const std::vector<TokenId> ids = batch_tokens(batch);
  Residual residual{.stream = scratch.take(rows, spec_.hidden),
                    .bank = {},
                    .mixed = scratch.take(rows, spec_.hidden)};
  kernels_.embed({.ids = ids.data(), .table = weights_.embedding, .y = residual.stream}, team);

  Activations normed = scratch.take(rows, spec_.hidden);
  Activations out = scratch.take(rows, spec_.hidden);
  for (std::size_t l = 0; l < spec_.layers.size(); ++l) {
    run_layer(step, static_cast<std::int64_t>(l), weights_.layers[l], residual, normed, out);
    if (batch.observer != nullptr)
      batch.observer->on_layer(static_cast<std::int64_t>(l), residual.stream);
  }

  if (logits.rows == 0) return;
  step.enter(Stage::kNorms);
  step.rms_norm(mix(step, residual, weights_.output_mix), weights_.final_norm, spec_.norm_eps,
                normed);
  step.enter(Stage::kHead);
  kernels_.linear({.x = wanted_rows(step, normed), .w = weights_.head, .y = logits}, team);
}

}  // namespace tandem
