// Reinforcement learning of an adapter: samples with rewards in, one or more optimiser steps out.
//
// The trainer knows nothing of where samples come from. It scores them with the same kernels and
// weights that drew them, so its log-probs are theirs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "train/adapter.h"
#include "train/model_pass.h"
#include "train/optimiser.h"
#include "train/rl/advantage.h"
#include "train/rl/objective.h"
#include "train/trainer_state.h"

namespace tandem::train {

// A prompt with an answer that some policy drew.
struct RolloutSample {
  std::vector<TokenId> tokens;  // prompt, then answer; at least one token each
  std::int64_t prompt_tokens = 0;
  std::vector<float> behaviour;    // log-prob of each answer token when it was drawn
  std::vector<std::uint8_t> mask;  // of answer tokens that are learnt from; empty: all
  std::int64_t group = 0;          // samples of one prompt share it
  double reward = 0;
};

struct PolicyTrainerConfig {
  ObjectiveConfig objective = {};
  CorrectionConfig correction = {};
  LossAggregation aggregation = LossAggregation::kTokenMean;
  AdvantageScale advantage_scale = AdvantageScale::kGroupStd;
  bool whiten = false;                 // whiten_advantages over the batch
  std::int64_t max_answer_tokens = 0;  // for LossAggregation::kConstant
  float temperature = 1;               // of the rollouts
  // Optimiser steps a batch: it is cut into so many parts of neighbouring samples. With more than
  // one, all samples are scored before the first step.
  std::int64_t steps_per_batch = 1;
  // Rows computed together; a longer sample goes alone. Changes no bit of the result.
  std::int64_t micro_batch_rows = 4096;
  RateSchedule rate = {.peak = 1e-3f};
  AdamWConfig optimiser = {};
  double clip = 1;
};

// Means over the batch's learnt tokens, unless named otherwise. Names in rl.md, section 9.
struct PolicyReport {
  std::int64_t step = 0;  // optimiser steps taken so far
  std::int64_t samples = 0, tokens = 0;
  double loss = 0;
  double reward = 0;         // mean over samples
  double answer_tokens = 0;  // mean over samples
  double entropy = 0;
  double clip_share = 0;
  double kl = 0;             // to the model without the adapter, where it is part of the loss
  double gradient_norm = 0;  // of the last step, before clipping
  float rate = 0;            // of the last step
  PolicyMismatch mismatch;   // trainer's score against the one stored when the token was drawn
};

// `spec`, `weights` and `adapter` outlive it and do not move. Deterministic: the same samples in
// the same order give the same bits on any number of threads. One thread at a time.
class PolicyTrainer {
 public:
  PolicyTrainer(const ModelSpec& spec, const ModelWeights& weights, LoraAdapter<float>& adapter,
                const PolicyTrainerConfig& config, const KernelSet& kernels, Precision precision,
                ThreadTeam& team);

  // Takes config.steps_per_batch steps. kInvalidArgument names a sample whose parts do not fit
  // together; kInternal if a gradient is not finite: that step is not taken.
  Result<PolicyReport> train(std::span<const RolloutSample> samples);

  // Log-probs of each sample's answer tokens under the adapter as it is, in order.
  std::vector<std::vector<double>> score(std::span<const RolloutSample> samples);

  // For trainer_state.h: the adapter and the optimiser. restore() refuses another adapter's.
  TrainerState state() const;
  Result<void> restore(const TrainerState& state);
  std::string layout() const;

 private:
  struct Scored;
  std::vector<Scored> prepare(std::span<const RolloutSample> samples);
  Result<void> take_step(std::span<Scored> part, PolicyReport& report);
  void accumulate(std::span<Scored> micro, std::span<const double> weights, PolicyReport& report);
  void fill_reference(std::span<Scored> all);

  LoraAdapter<float>& adapter_;
  PolicyTrainerConfig config_;
  TrainedWeights<float> trained_;
  TrainedWeights<float> nothing_;
  ModelPass<float> pass_;
  ModelPass<float> reference_pass_;  // the same weights without the adapter
  AdamW optimiser_;
};

}  // namespace tandem::train
