// A whole training run, from configuration to result, with its metrics and saved states.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "train/run/train_config.h"

namespace tandem::train {

// What a run tells while it goes on: one line for a person. Metrics go to OUTPUT/metrics.jsonl.
using TrainListener = std::function<void(const std::string& line)>;

// Runs to the end. Where OUTPUT/states holds a saved state of the same weights, goes on from there,
// and metrics of later steps that the stopped run had written are dropped: the curve is that of an
// uninterrupted run. Results:
//   pretrain   OUTPUT is a checkpoint folder that `reinforce` and Model::load take
//   reinforce  OUTPUT/adapter is an adapter in PEFT's format
Result<void> run_training(const TrainConfig& config, const TrainListener& listener,
                          const Clock& clock);

}  // namespace tandem::train
