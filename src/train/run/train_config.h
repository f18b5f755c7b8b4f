// What `tandem train` is told: a TOML file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"
#include "train/adapter.h"
#include "train/pretrain.h"
#include "train/rl/policy_trainer.h"
#include "train/tasks/chain_task.h"
#include "train/trainable_weights.h"

namespace tandem::train {

// docs/train.md lists the keys with their meaning.
struct TrainConfig {
  enum class Kind { kPretrain, kReinforce };
  Kind kind = Kind::kPretrain;
  // A folder for everything that the run writes; relative paths are the caller's.
  std::filesystem::path output;
  std::uint64_t seed = 0;
  int threads = 0;  // 0: one a hardware thread
  std::int64_t save_interval = 50;
  ChainTaskConfig task;
  std::int64_t eval_interval = 0;  // 0: at the end alone
  std::int64_t eval_prompts = 400;
  std::int64_t max_answer_tokens = 40;

  struct Pretrain {
    std::filesystem::path model_config;
    PretrainConfig trainer;
    ExpertStorage experts = ExpertStorage::kMxfp4;
  } pretrain;

  struct Reinforce {
    std::filesystem::path base;  // a checkpoint folder
    LoraConfig lora;
    PolicyTrainerConfig trainer;
    std::int64_t rollouts = 30;
    std::int64_t prompts = 12;  // a rollout
    std::int64_t samples = 16;  // a prompt
    // Prompts whose samples all earned the same are replaced, up to three times.
    bool dynamic_sampling = false;
  } reinforce;
};

// An error names `source`, the key and, for a value, where it stands. Keys that mean nothing are
// errors, and so are those of the other kind of run.
Result<TrainConfig> parse_train_config(std::string_view text, std::string_view source);

}  // namespace tandem::train
