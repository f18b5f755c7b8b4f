// Reading PEFT's format.
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "model/input.h"
#include "model/safetensors.h"
#include "train/peft.h"

namespace tandem::train {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;
constexpr std::int64_t kMaxRank = 4096;

// A setting is absent, null, or what plain LoRA has.
struct PlainSetting {
  const char* name;
  nlohmann::json plain;
};
const PlainSetting kPlainSettings[] = {
    {"bias", "none"},          {"use_dora", false},   {"fan_in_fan_out", false},
    {"modules_to_save", {}},   {"lora_bias", false},  {"target_parameters", {}},
    {"layer_replication", {}}, {"use_qalora", false}, {"megatron_config", {}},
};

struct PeftConfig {
  LoraConfig lora;
  // Exceptions by name of module, full or its end.
  std::map<std::string, std::int64_t> ranks;
  std::map<std::string, float> alphas;
};

Result<double> number(const nlohmann::json& json, const char* name, const std::string& source) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) {
    return invalid("{}: {}: expected a number", source, name);
  }
  return found->get<double>();
}

Result<std::int64_t> rank_of(double value, const std::string& name, const std::string& source) {
  if (!(value >= 1 && value <= static_cast<double>(kMaxRank)) || value != std::floor(value)) {
    return invalid("{}: {}: expected a whole number from 1 to {}, got {}", source, name, kMaxRank,
                   value);
  }
  return static_cast<std::int64_t>(value);
}

Result<float> alpha_of(double value, const std::string& name, const std::string& source) {
  if (!(value > 0) || !std::isfinite(value)) {
    return invalid("{}: {}: expected a number above 0, got {}", source, name, value);
  }
  return static_cast<float>(value);
}

// PEFT reads the keys as regular expressions; plain names are the ones that mean the same to all.
Result<void> check_pattern_name(const std::string& name, const char* setting,
                                const std::string& source) {
  const bool plain = name.find_first_of("^$*+?()[]{}|\\") == std::string::npos;
  if (plain && !name.empty()) return {};
  return fail(StatusCode::kUnimplemented,
              "{}: {}: '{}' is a regular expression; names of modules are supported", source,
              setting, name);
}

template <typename Value, typename Convert>
Result<void> read_pattern(const nlohmann::json& json, const char* setting,
                          const std::string& source, const Convert& convert,
                          std::map<std::string, Value>& into) {
  const auto found = json.find(setting);
  if (found == json.end() || found->is_null()) return {};
  if (!found->is_object()) return invalid("{}: {}: expected an object", source, setting);
  for (const auto& [name, value] : found->items()) {
    TRY(check_pattern_name(name, setting, source));
    if (!value.is_number()) return invalid("{}: {}: {}: expected a number", source, setting, name);
    into[name] = TRY(convert(value.template get<double>(), setting + (": " + name), source));
  }
  return {};
}

Result<PeftConfig> parse_config(const std::string& text, const std::string& source) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return invalid("{}: not a JSON object", source);
  if (json.value("peft_type", nlohmann::json()) != "LORA") {
    return fail(StatusCode::kUnimplemented, "{}: peft_type: expected \"LORA\"", source);
  }
  for (const PlainSetting& setting : kPlainSettings) {
    const auto found = json.find(setting.name);
    if (found == json.end() || found->is_null() || *found == setting.plain) continue;
    return fail(StatusCode::kUnimplemented, "{}: {}: {} is not supported", source, setting.name,
                in_quotes(found->dump()));
  }
  PeftConfig config;
  const double rank = TRY(number(json, "r", source));
  config.lora.rank = TRY(rank_of(rank, "r", source));
  const double alpha = TRY(number(json, "lora_alpha", source));
  config.lora.alpha = TRY(alpha_of(alpha, "lora_alpha", source));
  const auto stabilised = json.find("use_rslora");
  if (stabilised != json.end() && !stabilised->is_null()) {
    if (!stabilised->is_boolean()) return invalid("{}: use_rslora: expected a boolean", source);
    config.lora.rank_stabilised = stabilised->get<bool>();
  }
  const auto targets = json.find("target_modules");
  if (targets != json.end() && targets->is_array()) {
    for (const auto& target : *targets) {
      if (!target.is_string()) return invalid("{}: target_modules: expected strings", source);
      config.lora.targets.push_back(target.get<std::string>());
    }
  }
  TRY(read_pattern(json, "rank_pattern", source, rank_of, config.ranks));
  TRY(read_pattern(json, "alpha_pattern", source, alpha_of, config.alphas));
  return config;
}

template <typename Value>
Value by_pattern(const std::map<std::string, Value>& pattern, const std::string& path,
                 Value usual) {
  for (const auto& [name, value] : pattern) {
    if (names_module(name, path)) return value;
  }
  return usual;
}

// The two factors of a projection in the file.
struct Factors {
  const TensorEntry* a = nullptr;
  const TensorEntry* b = nullptr;
};

// Projection path to factors; every tensor of the file belongs to one.
Result<std::map<std::string, Factors>> factors_by_path(const TensorTable& tensors,
                                                       const std::string& source) {
  std::map<std::string, Factors> found;
  for (const auto& [name, entry] : tensors) {
    std::string_view path = name;
    const bool is_a = path.ends_with(".lora_A.weight");
    const bool is_b = path.ends_with(".lora_B.weight");
    if (!path.starts_with(kPeftPrefix) || !(is_a || is_b)) {
      return invalid("{}: tensor {}: expected names like {}PATH.lora_A.weight", source,
                     in_quotes(name), kPeftPrefix);
    }
    path.remove_prefix(std::string_view(kPeftPrefix).size());
    path.remove_suffix(std::string_view(".lora_A.weight").size());
    Factors& factors = found[std::string(path)];
    (is_a ? factors.a : factors.b) = &entry;
  }
  for (const auto& [path, factors] : found) {
    if (factors.a != nullptr && factors.b != nullptr) continue;
    return invalid("{}: {}: has lora_{} and no lora_{}", source, in_quotes(path),
                   factors.a ? 'A' : 'B', factors.a ? 'B' : 'A');
  }
  return found;
}

Result<void> read_factor(const SafetensorsFile& file, const TensorEntry& entry,
                         const std::string& name, Rows<float> into) {
  const std::vector<std::int64_t> expected = {into.rows, into.columns};
  if (entry.shape != expected) {
    return invalid("{}: {}: shape {}, expected {}", file.path().string(), name,
                   shape_text(entry.shape), shape_text(expected));
  }
  const auto bytes = file.bytes(entry);
  for (std::int64_t i = 0; i < into.rows * into.columns; ++i) {
    float value = 0;
    std::uint16_t half = 0;
    if (entry.dtype == DType::kF32) {
      std::memcpy(&value, bytes.data() + 4 * i, 4);
    } else if (entry.dtype == DType::kBF16 || entry.dtype == DType::kF16) {
      std::memcpy(&half, bytes.data() + 2 * i, 2);
      value = entry.dtype == DType::kF16 ? half_to_float(half) : to_float(BF16{half});
    } else {
      return invalid("{}: {}: dtype {}, expected F32, BF16 or F16", file.path().string(), name,
                     to_string(entry.dtype));
    }
    if (!std::isfinite(value)) {
      return invalid("{}: {}: element {} is not finite", file.path().string(), name, i);
    }
    into.data[i] = value;
  }
  return {};
}

}  // namespace

Result<LoraAdapter<float>> load_peft(const std::filesystem::path& folder, const ModelSpec& spec,
                                     const ModelWeights& weights) {
  const std::filesystem::path config_path = folder / kPeftConfigFile;
  const std::string text = TRY(read_small_file(config_path, kMaxConfigBytes));
  PeftConfig config = TRY(parse_config(text, config_path.string()));
  const auto file = TRY(SafetensorsFile::open(folder / kPeftTensorFile));
  const std::string source = file->path().string();
  auto factors = TRY(factors_by_path(file->tensors(), source));
  if (factors.empty()) return invalid("{}: holds no factors", source);

  // In the model's order, so that an adapter has one layout wherever it was written.
  std::vector<LoraModule> modules;
  std::vector<Factors> files;
  for (Projection& projection : adaptable_projections(spec, weights)) {
    const auto found = factors.find(projection.path);
    if (found == factors.end()) continue;
    LoraModule m;
    m.rank = by_pattern(config.ranks, projection.path, config.lora.rank);
    m.alpha = by_pattern(config.alphas, projection.path, config.lora.alpha);
    m.scale = lora_scale(m.alpha, m.rank, config.lora.rank_stabilised);
    m.projection = std::move(projection);
    modules.push_back(std::move(m));
    files.push_back(found->second);
    factors.erase(found);
  }
  if (!factors.empty()) {
    return invalid("{}: {}: this model has no such projection", source,
                   in_quotes(factors.begin()->first));
  }
  auto adapter = LoraAdapter<float>::with_modules(std::move(config.lora), std::move(modules));
  for (std::size_t i = 0; i < files.size(); ++i) {
    const LoraModule& m = adapter.modules()[i];
    TRY(read_factor(*file, *files[i].a, m.path() + ".lora_A", adapter.a(m)));
    TRY(read_factor(*file, *files[i].b, m.path() + ".lora_B", adapter.b(m)));
  }
  return adapter;
}

}  // namespace tandem::train
