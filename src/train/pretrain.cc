#include "train/pretrain.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::train {
namespace {

AdamWConfig with_decay_of_matrices(AdamWConfig config, std::size_t matrix_values) {
  config.decayed = matrix_values;
  return config;
}

}  // namespace

Pretrainer::Pretrainer(const ModelSpec& spec, TrainableWeights<float>& weights,
                       const PretrainConfig& config, ExampleStream stream, const KernelSet& kernels,
                       ThreadTeam& team)
    : spec_(spec),
      weights_(weights),
      config_(config),
      stream_(std::move(stream)),
      pass_(spec, weights.weights(), trained_, kernels, Precision::kExact, team),
      optimiser_(with_decay_of_matrices(config.optimiser, weights.matrix_values()),
                 weights.values().size()) {
  weights_.want_all(trained_);
}

Result<PretrainStep> Pretrainer::step() {
  CHECK(!done(), "step {} of {}", next_step_, config_.steps);
  PackedBatch batch;
  for (std::int64_t i = 0; i < config_.batch; ++i) {
    stream_(static_cast<std::uint64_t>(next_step_ * config_.batch + i), batch);
  }
  const std::vector<TokenScore> scores = pass_.forward(batch, 1);
  const auto count = static_cast<double>(scores.size());
  PretrainStep report{.step = next_step_,
                      .rate = config_.rate.rate_at(next_step_),
                      .tokens = static_cast<std::int64_t>(batch.tokens.size()),
                      .scored = static_cast<std::int64_t>(scores.size())};
  for (const TokenScore& score : scores) report.loss -= score.log_prob / count;
  weights_.clear_gradients();
  pass_.backward(std::vector<TokenScoreGradient>(scores.size(), {.log_prob = -1 / count}));
  report.gradient_norm = TRY(clip_gradients(weights_.mutable_gradients(), config_.clip));
  optimiser_.step(weights_.mutable_values(), weights_.gradients(), report.rate);
  balance_experts();
  weights_.refresh();
  ++next_step_;
  return report;
}

void Pretrainer::balance_experts() {
  std::size_t layer = 0;
  for (const WeightSlot& slot : weights_.slots()) {
    if (slot.kind != WeightSlot::Kind::kFixed) continue;
    while (!spec_.layers[layer].is_moe()) ++layer;
    const std::vector<std::int64_t>& load = pass_.expert_load(layer++);
    std::int64_t total = 0;
    for (const std::int64_t chosen : load) total += chosen;
    float* bias = weights_.mutable_values().data() + slot.offset;
    for (std::size_t e = 0; e < load.size(); ++e) {
      const std::int64_t above = load[e] * static_cast<std::int64_t>(load.size()) - total;
      if (above != 0) bias[e] += above > 0 ? -config_.balance_rate : config_.balance_rate;
    }
  }
}

std::string Pretrainer::layout() const {
  std::string text;
  for (const WeightSlot& slot : weights_.slots()) {
    text += fmt::format("{} {}x{}\n", slot.path, slot.rows, slot.columns);
  }
  return text;
}

TrainerState Pretrainer::state() const {
  return {.layout = layout(),
          .counters = {{"step", next_step_}},
          .buffers = {},
          .values = weights_.values(),
          .optimiser = optimiser_.state()};
}

Result<void> Pretrainer::restore(TrainerState state) {
  if (state.layout != layout() || state.values.size() != weights_.values().size()) {
    return invalid("the saved state is of other weights");
  }
  std::copy(state.values.begin(), state.values.end(), weights_.mutable_values().begin());
  weights_.refresh();
  optimiser_.restore(std::move(state.optimiser));
  next_step_ = state.counters.at("step");
  return {};
}

}  // namespace tandem::train
