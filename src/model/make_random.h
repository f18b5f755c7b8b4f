// Writing checkpoints with random weights, for tests and benchmarks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/status.h"

namespace tandem {

struct MakeRandomOptions {
  std::uint64_t seed = 0;
  std::optional<std::int64_t> layers = {};  // keep only the first ones
  std::uint64_t shard_bytes = std::uint64_t{4} << 30;
  int threads = 1;
  // Called with the share written, 0..1, if set.
  void (*progress)(double share, void* context) = nullptr;
  void* progress_context = nullptr;
};

// Writes config.json, model.safetensors.index.json and shards into `folder`, which must be empty or
// new. `config` is a config.json or a folder with one; with `layers` its layer count and layer
// lists are cut. Values: random_weights.h; the same configuration and seed give the same bytes on
// every machine. Needs a few MB of memory whatever the size. An error leaves what was written so
// far, without config.json, so that it does not pass for a checkpoint.
Result<void> make_random_checkpoint(const std::filesystem::path& config,
                                    const std::filesystem::path& folder,
                                    const MakeRandomOptions& options = {});

}  // namespace tandem
