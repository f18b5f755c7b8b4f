// LoRA adapters in PEFT's format: a folder with adapter_config.json and adapter_model.safetensors.
//
// A factor's name is "base_model.model." + the projection's path in the checkpoint +
// ".lora_A.weight" [rank, inputs] or ".lora_B.weight" [outputs, rank]; an expert's projections have
// one pair each: "...block_sparse_moe.experts.3.w1.lora_A.weight". The scale is in the
// configuration, not in the factors.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"
#include "train/adapter.h"

namespace tandem::train {

// The prefix and the names of the two files.
inline constexpr const char* kPeftPrefix = "base_model.model.";
inline constexpr const char* kPeftConfigFile = "adapter_config.json";
inline constexpr const char* kPeftTensorFile = "adapter_model.safetensors";

// Writes fp32 factors into `folder`, which is made if need be. `base_model` is noted in the
// configuration for other programs. Files appear complete or not at all.
Result<void> save_peft(LoraAdapter<float>& adapter, const std::filesystem::path& folder,
                       const std::string& base_model);

// Loads an adapter for this model; F32, BF16 and F16 factors become fp32. Refuses, naming the
// setting or the tensor: what is not plain LoRA (DoRA, biases, modules to save, transposed weights,
// factors over parameters), a tensor of no projection, a factor without its other half, a shape
// that does not fit, ranks that the configuration does not give.
Result<LoraAdapter<float>> load_peft(const std::filesystem::path& folder, const ModelSpec& spec,
                                     const ModelWeights& weights);

}  // namespace tandem::train
