// `kind = "pretrain"` of a training run.
#pragma once

#include "tensor/thread_team.h"
#include "train/run/train_run.h"

namespace tandem::train {

Result<void> run_pretraining(const TrainConfig& config, const TrainListener& listener,
                             const Clock& clock, ThreadTeam& team);

}  // namespace tandem::train
