// What the user asked of `tandem run`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine_flags.h"
#include "model_options.h"

namespace tandem {

struct RunOptions {
  ModelOptions model;
  EngineFlags engine;
  std::optional<std::string> prompt;
  std::string system;
  std::string effort = "max";
  std::string input_ids;

  std::optional<float> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k;
  std::optional<std::uint64_t> seed;
  std::int64_t max_tokens = -1;

  bool show_thinking = false;
  bool show_stats = false;
  bool json = false;
};

}  // namespace tandem
