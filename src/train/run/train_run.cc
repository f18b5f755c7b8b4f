#include "train/run/train_run.h"

#include "train/run/pretrain_run.h"
#include "train/run/reinforce_run.h"

namespace tandem::train {

Result<void> run_training(const TrainConfig& config, const TrainListener& listener,
                          const Clock& clock) {
  std::error_code error;
  std::filesystem::create_directories(config.output, error);
  if (error) return invalid("{}: cannot be made: {}", config.output.string(), error.message());
  ThreadTeam team(config.threads > 0 ? config.threads : default_thread_count());
  if (config.kind == TrainConfig::Kind::kPretrain) {
    return run_pretraining(config, listener, clock, team);
  }
  return run_reinforcement(config, listener, clock, team);
}

}  // namespace tandem::train
