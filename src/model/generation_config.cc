#include "model/config.h"
#include "model/config_fields.h"
#include "model/input.h"

namespace tandem {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr IntRange kTokenIds = {0, (std::int64_t{1} << 31) - 1};

}  // namespace

Result<GenerationDefaults> parse_generation_config(std::string_view json, std::string_view source) {
  const nlohmann::json document = TRY(parse_json_object(json, source, kMaxBytes));
  std::optional<Status> error;
  ConfigFields fields(document, source, "", error);
  GenerationDefaults defaults;
  defaults.temperature = fields.optional_number("temperature", {0, 100});
  defaults.top_p = fields.optional_number("top_p", {0, 1});
  defaults.top_k = fields.optional_integer("top_k", {0, 1 << 30});
  defaults.repetition_penalty = fields.optional_number("repetition_penalty", {1e-3, 1e3});
  defaults.max_new_tokens = fields.optional_integer("max_new_tokens", {1, kTokenIds.high});
  if (fields.has("eos_token_id")) {
    const bool is_list = document["eos_token_id"].is_array();
    const std::vector<std::int64_t> ids =
        is_list ? fields.integers("eos_token_id", kTokenIds)
                : std::vector{fields.integer("eos_token_id", kTokenIds)};
    for (std::int64_t id : ids) defaults.eos_ids.push_back(static_cast<TokenId>(id));
  }
  if (error) return fail(*error);
  return defaults;
}

Result<GenerationDefaults> read_generation_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return GenerationDefaults{};
  const std::string text = TRY(read_small_file(path, kMaxBytes));
  return parse_generation_config(text, path.string());
}

}  // namespace tandem
