// Pre-training a small model on a stream of examples.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "train/model_pass.h"
#include "train/optimiser.h"
#include "train/trainable_weights.h"
#include "train/trainer_state.h"

namespace tandem::train {

struct PretrainConfig {
  std::int64_t steps = 500;
  std::int64_t batch = 32;  // examples a step
  RateSchedule rate = {.kind = Schedule::kCosine,
                       .peak = 3e-3f,
                       .warmup_steps = 20,
                       .total_steps = 500,
                       .final_share = 0.1f};
  AdamWConfig optimiser = {.beta1 = 0.9f, .beta2 = 0.95f, .weight_decay = 0.05f};
  double clip = 1;
  // After a step the correction bias of an expert that was chosen less than its share rises by
  // this much and falls if it was chosen more.
  float balance_rate = 1e-3f;
};

struct PretrainStep {
  std::int64_t step = 0;
  double loss = 0;  // mean over scored tokens, nats
  double gradient_norm = 0;
  float rate = 0;
  std::int64_t tokens = 0;  // rows computed
  std::int64_t scored = 0;
};

// Example number `index` of the stream, appended to a batch.
using ExampleStream = std::function<void(std::uint64_t index, PackedBatch& batch)>;

// Runs one step at a time over `weights`, which outlives it. Deterministic: the same weights,
// config and stream give the same bits on any number of threads. One thread at a time.
class Pretrainer {
 public:
  Pretrainer(const ModelSpec& spec, TrainableWeights<float>& weights, const PretrainConfig& config,
             ExampleStream stream, const KernelSet& kernels, ThreadTeam& team);

  std::int64_t next_step() const { return next_step_; }
  bool done() const { return next_step_ >= config_.steps; }
  // kInternal if a gradient is not finite: nothing has moved then.
  Result<PretrainStep> step();

  // For trainer_state.h. restore() refuses a state of other weights.
  TrainerState state() const;
  Result<void> restore(TrainerState state);
  std::string layout() const;

 private:
  void balance_experts();

  const ModelSpec& spec_;
  TrainableWeights<float>& weights_;
  PretrainConfig config_;
  ExampleStream stream_;
  TrainedWeights<float> trained_;
  ModelPass<float> pass_;
  AdamW optimiser_;
  std::int64_t next_step_ = 0;
};

}  // namespace tandem::train
