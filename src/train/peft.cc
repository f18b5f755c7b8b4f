#include "train/peft.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "model/input.h"
#include "model/safetensors_writer.h"
#include "train/files.h"

namespace tandem::train {
namespace {

// What PEFT calls the modules of an adapter. Short names say what was asked for; "all-linear" means
// something else to other programs, so it becomes the names that it stood for.
std::vector<std::string> target_modules(const LoraAdapter<float>& adapter) {
  const auto& targets = adapter.config().targets;
  if (std::find(targets.begin(), targets.end(), "all-linear") == targets.end()) return targets;
  std::set<std::string> names;
  for (const LoraModule& m : adapter.modules()) {
    names.insert(m.path().substr(m.path().rfind('.') + 1));
  }
  return {names.begin(), names.end()};
}

// Modules whose rank or alpha is not the adapter's, by path.
template <typename Value>
nlohmann::ordered_json pattern(const LoraAdapter<float>& adapter, Value LoraModule::*field,
                               Value usual) {
  auto made = nlohmann::ordered_json::object();
  for (const LoraModule& m : adapter.modules()) {
    if (m.*field != usual) made[m.path()] = m.*field;
  }
  return made;
}

std::string config_text(const LoraAdapter<float>& adapter, const std::string& base_model) {
  const LoraConfig& config = adapter.config();
  nlohmann::ordered_json json;
  json["peft_type"] = "LORA";
  json["task_type"] = "CAUSAL_LM";
  json["base_model_name_or_path"] = base_model;
  json["r"] = config.rank;
  json["lora_alpha"] = config.alpha;
  json["lora_dropout"] = 0.0;
  json["use_rslora"] = config.rank_stabilised;
  json["use_dora"] = false;
  json["bias"] = "none";
  json["fan_in_fan_out"] = false;
  json["target_modules"] = target_modules(adapter);
  json["exclude_modules"] = nullptr;
  json["target_parameters"] = nullptr;
  json["modules_to_save"] = nullptr;
  json["rank_pattern"] = pattern(adapter, &LoraModule::rank, config.rank);
  json["alpha_pattern"] = pattern(adapter, &LoraModule::alpha, config.alpha);
  json["init_lora_weights"] = true;
  json["inference_mode"] = true;
  return json.dump(2) + "\n";
}

}  // namespace

Result<void> save_peft(LoraAdapter<float>& adapter, const std::filesystem::path& folder,
                       const std::string& base_model) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return invalid("{}: cannot be made: {}", folder.string(), error.message());
  std::vector<TensorToWrite> tensors;
  const auto add = [&](const std::string& name, Rows<float> factor) {
    const auto count = static_cast<std::size_t>(factor.rows * factor.columns);
    tensors.push_back({{name, DType::kF32, {factor.rows, factor.columns}},
                       std::as_bytes(std::span(factor.data, count))});
  };
  for (const LoraModule& m : adapter.modules()) {
    add(kPeftPrefix + m.path() + ".lora_A.weight", adapter.a(m));
    add(kPeftPrefix + m.path() + ".lora_B.weight", adapter.b(m));
  }
  TRY(replace_file(folder / kPeftTensorFile, [&](const std::filesystem::path& part) {
    return write_safetensors(part, tensors);
  }));
  return replace_text_file(folder / kPeftConfigFile, config_text(adapter, base_model));
}

}  // namespace tandem::train
