// config.json -> ModelSpec, and generation_config.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/model_spec.h"

namespace tandem {

// Reads a Hugging Face configuration, flat (Kimi Linear) or nested under `text_config` (Kimi K3).
// Fields that change the answer have no default; an unknown architecture, activation or router,
// layer lists that do not partition 1..L, or a size that is not positive is an error that names
// `source` and the field.
Result<ModelSpec> parse_config(std::string_view json, std::string_view source);

// From `folder`/config.json.
Result<ModelSpec> read_config(const std::filesystem::path& folder);

// The sampling defaults a checkpoint ships; fields absent from the file are absent here.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<std::int64_t> top_k;
  std::optional<float> repetition_penalty;
  std::optional<std::int64_t> max_new_tokens;
  std::vector<TokenId> eos_ids;
};

Result<GenerationDefaults> parse_generation_config(std::string_view json, std::string_view source);

// Empty defaults if the folder has no generation_config.json.
Result<GenerationDefaults> read_generation_config(const std::filesystem::path& folder);

}  // namespace tandem
