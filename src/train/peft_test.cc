// Adapters in PEFT's format: names, round trip, and every refusal names the thing.
#include "train/peft.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "model/checkpoint.h"
#include "model/config.h"
#include "model/safetensors_writer.h"
#include "support/cases.h"
#include "support/temp_folder.h"
#include "train/ops/gradient_check.h"

namespace tandem::train {
namespace {

struct LoadedModel {
  ModelSpec spec;
  ModelWeights weights;

  explicit LoadedModel(const char* name) {
    const auto folder = source_folder() / "tests/data/golden" / name;
    spec = read_config(folder).value();
    weights = load_weights(spec, Checkpoint::open(folder).value()).value();
  }
};

// An adapter with no zero in it.
LoraAdapter<float> filled_adapter(const LoadedModel& model, LoraConfig config) {
  auto adapter = LoraAdapter<float>::create(model.spec, model.weights, config, 3);
  EXPECT_TRUE(adapter) << adapter.error().message;
  RandomNumbers random(4);
  for (float& value : adapter->mutable_values()) value = static_cast<float>(random.next());
  return *std::move(adapter);
}

TEST(Peft, an_adapter_comes_back_bit_for_bit) {
  for (const char* name : {"k3_tiny", "kimi_linear_tiny"}) {
    const LoadedModel model(name);
    for (const std::vector<std::string>& targets :
         {std::vector<std::string>{"all-linear", "lm_head"}, {"o_proj", "experts.3.w1"}}) {
      auto saved = filled_adapter(
          model, {.rank = 5, .alpha = 7.5f, .rank_stabilised = true, .targets = targets});
      TempFolder folder;
      const auto written = save_peft(saved, folder / "adapter", name);
      ASSERT_TRUE(written) << written.error().message;
      auto loaded = load_peft(folder / "adapter", model.spec, model.weights);
      ASSERT_TRUE(loaded) << loaded.error().message;
      EXPECT_EQ(loaded->values(), saved.values());
      ASSERT_EQ(loaded->modules().size(), saved.modules().size());
      for (std::size_t i = 0; i < saved.modules().size(); ++i) {
        EXPECT_EQ(loaded->modules()[i].projection.weight, saved.modules()[i].projection.weight);
        EXPECT_EQ(loaded->modules()[i].scale, saved.modules()[i].scale);
        EXPECT_EQ(loaded->modules()[i].scale, 7.5f / std::sqrt(5.0f));
      }
    }
  }
}

// The names that PEFT gives, for each kind of module of either family.
TEST(Peft, names_are_peft_names) {
  TempFolder folder;
  const LoadedModel k3("k3_tiny");
  auto adapter = filled_adapter(k3, {.rank = 2, .alpha = 4, .targets = {"all-linear"}});
  ASSERT_TRUE(save_peft(adapter, folder.path(), "base"));
  const auto file = SafetensorsFile::open(folder / kPeftTensorFile).value();
  const auto shape = [&](const std::string& path) {
    const auto found = file->tensors().find("base_model.model.language_model.model.layers." + path);
    return found == file->tensors().end() ? std::vector<std::int64_t>{} : found->second.shape;
  };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape("0.self_attn.o_proj.lora_A.weight"), (Shape{2, 96}));
  EXPECT_EQ(shape("0.self_attn.o_proj.lora_B.weight"), (Shape{192, 2}));
  EXPECT_EQ(shape("2.self_attn.q_a_proj.lora_A.weight"), (Shape{2, 192}));
  EXPECT_EQ(shape("2.self_attn.kv_a_proj_with_mqa.lora_B.weight"), (Shape{72, 2}));
  EXPECT_EQ(shape("0.mlp.gate_proj.lora_B.weight"), (Shape{320, 2}));
  EXPECT_EQ(shape("1.block_sparse_moe.shared_experts.down_proj.lora_A.weight"), (Shape{2, 192}));
  EXPECT_EQ(shape("1.block_sparse_moe.routed_expert_down_proj.lora_B.weight"), (Shape{64, 2}));
  EXPECT_EQ(shape("1.block_sparse_moe.experts.11.w1.lora_A.weight"), (Shape{2, 64}));
  EXPECT_EQ(shape("1.block_sparse_moe.experts.11.w1.lora_B.weight"), (Shape{96, 2}));
  EXPECT_EQ(shape("1.block_sparse_moe.experts.0.w2.lora_B.weight"), (Shape{64, 2}));
  EXPECT_EQ(shape("1.block_sparse_moe.gate.lora_A.weight"), Shape{}) << "routers stay frozen";

  const auto config = nlohmann::json::parse(read_text(folder / kPeftConfigFile));
  EXPECT_EQ(config.at("peft_type"), "LORA");
  EXPECT_EQ(config.at("r"), 2);
  EXPECT_EQ(config.at("lora_alpha"), 4.0);
  EXPECT_EQ(config.at("bias"), "none");
  const std::set<std::string> targets = config.at("target_modules");
  EXPECT_TRUE(targets.contains("o_proj") && targets.contains("w2") && !targets.contains("gate"));

  const LoadedModel linear("kimi_linear_tiny");
  auto plain = filled_adapter(linear, {.rank = 2, .alpha = 4, .targets = {"q_proj"}});
  ASSERT_TRUE(save_peft(plain, folder.path(), "base"));
  EXPECT_TRUE(SafetensorsFile::open(folder / kPeftTensorFile)
                  .value()
                  ->tensors()
                  .contains("base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight"));
}

TEST(Peft, a_target_of_no_projection_is_named) {
  const LoadedModel model("kimi_linear_tiny");
  const auto wrong = LoraAdapter<float>::create(
      model.spec, model.weights, {.rank = 2, .alpha = 4, .targets = {"o_proj", "q_a_proj"}}, 1);
  ASSERT_FALSE(wrong);
  expect_one_line(wrong.error().message, {"q_a_proj"});
}

// An adapter of one module that a test spoils before it is loaded.
class SpoiltPeft : public testing::Test {
 protected:
  SpoiltPeft() : model_("kimi_linear_tiny") {
    auto adapter =
        filled_adapter(model_, {.rank = 2, .alpha = 4, .targets = {"3.self_attn.o_proj"}});
    EXPECT_TRUE(save_peft(adapter, folder_.path(), "base"));
    config_ = nlohmann::json::parse(read_text(folder_ / kPeftConfigFile));
    const auto file = SafetensorsFile::open(folder_ / kPeftTensorFile).value();
    for (const auto& [name, entry] : file->tensors()) {
      const auto bytes = file->bytes(entry);
      tensors_[name] = {{name, entry.dtype, entry.shape},
                        {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
    }
  }

  Result<LoraAdapter<float>> load() {
    write_text(folder_ / kPeftConfigFile, config_.dump());
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : tensors_) {
      list.push_back({tensor.info, std::as_bytes(std::span(tensor.bytes))});
      list.back().info.name = name;
    }
    EXPECT_TRUE(write_safetensors(folder_ / kPeftTensorFile, list));
    return load_peft(folder_.path(), model_.spec, model_.weights);
  }
  void expect_refused(const std::vector<std::string>& parts) {
    const auto loaded = load();
    ASSERT_FALSE(loaded);
    expect_one_line(loaded.error().message, parts);
  }
  void rename(const std::string& from, const std::string& to) {
    auto node = tensors_.extract(from);
    node.key() = to;
    tensors_.insert(std::move(node));
  }

  struct Tensor {
    TensorInfo info;
    std::string bytes;
  };
  static constexpr const char* kA =
      "base_model.model.model.layers.3.self_attn.o_proj.lora_A.weight";
  static constexpr const char* kB =
      "base_model.model.model.layers.3.self_attn.o_proj.lora_B.weight";
  LoadedModel model_;
  TempFolder folder_;
  nlohmann::json config_;
  std::map<std::string, Tensor> tensors_;
};

TEST_F(SpoiltPeft, what_is_not_plain_lora_is_named) {
  for (const auto& [name, value] :
       std::map<std::string, nlohmann::json>{{"use_dora", true},
                                             {"bias", "all"},
                                             {"fan_in_fan_out", true},
                                             {"modules_to_save", {"lm_head"}},
                                             {"target_parameters", {"experts.w1"}},
                                             {"peft_type", "IA3"}}) {
    const nlohmann::json kept = config_[name];
    config_[name] = value;
    expect_refused({name, kPeftConfigFile});
    config_[name] = kept;
  }
  EXPECT_TRUE(load());
}

TEST_F(SpoiltPeft, ranks_and_scales_are_checked) {
  for (const nlohmann::json& rank : {nlohmann::json(0), nlohmann::json(1.5), nlohmann::json("8"),
                                     nlohmann::json(1000000), nlohmann::json()}) {
    config_["r"] = rank;
    expect_refused({"r:"});
  }
  config_["r"] = 3;
  expect_refused({"o_proj.lora_A", "[2, 64]", "[3, 64]"});
  config_["rank_pattern"] = {{"o_proj", 2}};
  config_["alpha_pattern"] = {{"3.self_attn.o_proj", 9}};
  const auto loaded = load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->modules()[0].rank, 2);
  EXPECT_EQ(loaded->modules()[0].scale, 4.5f);
  config_["alpha_pattern"] = {{"^model.*o_proj", 9}};
  expect_refused({"alpha_pattern", "^model"});
  config_["alpha_pattern"] = nullptr;
  config_["lora_alpha"] = -1;
  expect_refused({"lora_alpha"});
}

TEST_F(SpoiltPeft, tensors_are_checked) {
  rename(kB, "base_model.model.model.layers.9.self_attn.o_proj.lora_B.weight");
  expect_refused({"layers.3.self_attn.o_proj", "lora_A", "no lora_B"});
  rename(kA, "base_model.model.model.layers.9.self_attn.o_proj.lora_A.weight");
  expect_refused({"layers.9.self_attn.o_proj", "no such projection"});
  rename("base_model.model.model.layers.9.self_attn.o_proj.lora_A.weight", kA);
  rename("base_model.model.model.layers.9.self_attn.o_proj.lora_B.weight", kB);
  rename(kA, "base_model.model.model.layers.3.self_attn.o_proj.lora_A.default.weight");
  expect_refused({"lora_A.default.weight"});
  rename("base_model.model.model.layers.3.self_attn.o_proj.lora_A.default.weight", kA);
  const float nan = NAN;
  std::memcpy(tensors_[kB].bytes.data() + 4, &nan, 4);
  expect_refused({"o_proj.lora_B", "element 1"});
}

TEST_F(SpoiltPeft, bf16_factors_become_fp32) {
  Tensor& a = tensors_[kA];
  std::string narrow(a.bytes.size() / 2, '\0');
  for (std::size_t i = 0; i < narrow.size() / 2; ++i) {
    float value = 0;
    std::memcpy(&value, a.bytes.data() + 4 * i, 4);
    const BF16 rounded = to_bf16(value);
    std::memcpy(narrow.data() + 2 * i, &rounded, 2);
  }
  a.info.dtype = DType::kBF16;
  a.bytes = narrow;
  auto loaded = load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  BF16 first;
  std::memcpy(&first, narrow.data(), 2);
  EXPECT_EQ(loaded->values()[0], to_float(first));
}

TEST(Peft, a_folder_without_an_adapter_is_named) {
  const LoadedModel model("kimi_linear_tiny");
  TempFolder folder;
  const auto loaded = load_peft(folder.path(), model.spec, model.weights);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, StatusCode::kNotFound);
  expect_one_line(loaded.error().message, {kPeftConfigFile});
}

}  // namespace
}  // namespace tandem::train
