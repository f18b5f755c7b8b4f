#include "model/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/cases.h"
#include "support/temp_folder.h"

namespace tandem {
namespace {

using nlohmann::json;

std::string config_text(std::string_view name) {
  return read_text(source_folder() / "tests/data/configs" / (std::string(name) + ".config.json"));
}

const char* const kK3 = "kimi-k3";
const char* const kKl = "kimi-linear-48b";

ModelSpec parse_shipped(std::string_view name) {
  const auto spec = parse_config(config_text(name), name);
  EXPECT_TRUE(spec) << spec.error().message;
  return spec.value_or(ModelSpec{});
}

TEST(KimiK3Config, has_the_published_dimensions) {
  const ModelSpec spec = parse_shipped("kimi-k3");
  EXPECT_EQ(spec.family, ModelFamily::kKimiK3);
  EXPECT_EQ(spec.architecture, "KimiK3ForConditionalGeneration");
  EXPECT_EQ(spec.tensor_prefix, "language_model.");
  EXPECT_EQ(spec.vocab_size, 163840);
  EXPECT_EQ(spec.hidden, 7168);
  EXPECT_EQ(spec.context_length, 1048576);
  EXPECT_FLOAT_EQ(spec.norm_eps, 1e-5f);
  EXPECT_FLOAT_EQ(spec.latent_norm_eps, 1e-6f);
  EXPECT_EQ(spec.activation.kind, GatedActivation::kSituGlu);
  EXPECT_EQ(spec.activation.gate_beta, 4.0f);
  EXPECT_EQ(spec.activation.up_beta, 25.0f);
  EXPECT_FALSE(spec.tied_embeddings);
  EXPECT_TRUE(spec.packed_experts);
  EXPECT_EQ(spec.residual_block, 12);
  EXPECT_EQ(spec.bos_id, 163584);
  EXPECT_EQ(spec.eos_id, 163586);
  EXPECT_EQ(spec.pad_id, 163839);

  ASSERT_EQ(spec.layers.size(), 93u);
  EXPECT_EQ(spec.kda_layers(), 69);
  EXPECT_EQ(spec.mla_layers(), 24);
  EXPECT_EQ(spec.bank_rows(), 8);
  for (std::size_t l = 0; l < spec.layers.size(); ++l) {
    EXPECT_EQ(spec.layers[l].is_kda(), l % 4 != 3 && l != 92) << l;
    EXPECT_EQ(spec.layers[l].is_moe(), l > 0) << l;
    EXPECT_EQ(spec.layers[l].starts_block, l % 12 == 0) << l;
  }

  const auto& kda = std::get<KdaSpec>(spec.layers[0].attention);
  EXPECT_EQ(kda.heads, 96);
  EXPECT_EQ(kda.head_dim, 128);
  EXPECT_EQ(kda.conv_width, 4);
  EXPECT_EQ(kda.decay_lower_bound, -5.0f);
  EXPECT_TRUE(kda.full_rank_gate);

  const auto& mla = std::get<MlaSpec>(spec.layers[92].attention);
  EXPECT_EQ(mla.dims.heads, 96);
  EXPECT_EQ(mla.dims.nope, 128);
  EXPECT_EQ(mla.dims.pe, 64);
  EXPECT_EQ(mla.dims.value, 128);
  EXPECT_EQ(mla.dims.latent, 512);
  EXPECT_EQ(mla.q_rank, 1536);
  EXPECT_TRUE(mla.output_gate);

  EXPECT_EQ(std::get<DenseFfnSpec>(spec.layers[0].ffn).intermediate, 33792);
  const auto& moe = std::get<MoeSpec>(spec.layers[92].ffn);
  EXPECT_EQ(moe.experts, 896);
  EXPECT_EQ(moe.top_k, 16);
  EXPECT_EQ(moe.intermediate, 3072);
  EXPECT_EQ(moe.shared_intermediate, 6144);
  EXPECT_EQ(moe.latent, 3584);
  EXPECT_TRUE(moe.latent_norm);
  EXPECT_EQ(moe.groups, 1);
  EXPECT_TRUE(moe.renormalize);
  EXPECT_EQ(moe.scaling, 1.0f);
  EXPECT_FALSE(moe.bias_in_weights);
}

TEST(KimiLinearConfig, has_the_published_dimensions) {
  const ModelSpec spec = parse_shipped("kimi-linear-48b");
  EXPECT_EQ(spec.family, ModelFamily::kKimiLinear);
  EXPECT_EQ(spec.tensor_prefix, "");
  EXPECT_EQ(spec.hidden, 2304);
  EXPECT_EQ(spec.context_length, 1048576);  // spelt model_max_length
  EXPECT_EQ(spec.activation.kind, GatedActivation::kSwiGlu);
  EXPECT_FALSE(spec.packed_experts);
  EXPECT_FALSE(spec.residual_block);

  ASSERT_EQ(spec.layers.size(), 27u);
  EXPECT_EQ(spec.kda_layers(), 20);
  EXPECT_EQ(spec.mla_layers(), 7);
  EXPECT_EQ(spec.bank_rows(), 0);
  for (std::size_t l = 0; l < spec.layers.size(); ++l) {
    EXPECT_EQ(spec.layers[l].is_kda(), l % 4 != 3 && l != 26) << l;
  }

  const auto& kda = std::get<KdaSpec>(spec.layers[0].attention);
  EXPECT_EQ(kda.heads, 32);
  EXPECT_FALSE(kda.decay_lower_bound);
  EXPECT_FALSE(kda.full_rank_gate);
  const auto& mla = std::get<MlaSpec>(spec.layers[26].attention);
  EXPECT_EQ(mla.dims.heads, 32);
  EXPECT_FALSE(mla.q_rank);
  EXPECT_FALSE(mla.output_gate);
  const auto& moe = std::get<MoeSpec>(spec.layers[1].ffn);
  EXPECT_EQ(moe.experts, 256);
  EXPECT_EQ(moe.top_k, 8);
  EXPECT_EQ(moe.shared_intermediate, 1024);
  EXPECT_FALSE(moe.latent);
  EXPECT_FLOAT_EQ(moe.scaling, 2.446f);
}

TEST(ShippedConfigs, all_parse) {
  EXPECT_EQ(parse_shipped("k3-mid").layers.size(), 12u);
  EXPECT_EQ(parse_shipped("k3-tiny-24h").layers.size(), 13u);
  const auto demo = read_config(source_folder() / "models/demo");
  ASSERT_TRUE(demo) << demo.error().message;
  EXPECT_EQ(demo->bank_rows(), 3);
}

// A merge patch (RFC 7386) on a shipped configuration: null removes a field.
Result<ModelSpec> parse_patched(std::string_view base, std::string_view patch) {
  json config = json::parse(config_text(base));
  config.merge_patch(json::parse(patch));
  return parse_config(config.dump(), "dir/config.json");
}

TEST(Config, optional_fields_have_the_documented_defaults) {
  json config = json::parse(config_text(kKl));
  for (const char* field :
       {"moe_layer_freq", "use_grouped_topk", "num_expert_group", "topk_group",
        "moe_router_activation_func", "num_nextn_predict_layers", "tie_word_embeddings",
        "q_lora_rank", "head_dim", "rope_theta", "rope_scaling", "mla_use_nope", "pad_token_id",
        "num_key_value_heads", "dtype", "model_type"}) {
    EXPECT_EQ(config.erase(field), 1u) << field;
  }
  const auto spec = parse_config(config.dump(), "c");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->pad_id, spec->eos_id);
  EXPECT_FALSE(spec->tied_embeddings);
  EXPECT_FALSE(std::get<MlaSpec>(spec->layers[3].attention).q_rank);
  const auto& moe = std::get<MoeSpec>(spec->layers[1].ffn);
  EXPECT_EQ(moe.groups, 1);
  EXPECT_EQ(moe.top_groups, 1);
}

TEST(Config, grouped_routing_can_be_switched_off) {
  const auto on = parse_patched(kKl, R"({"num_expert_group":8,"topk_group":4})");
  ASSERT_TRUE(on) << on.error().message;
  EXPECT_EQ(std::get<MoeSpec>(on->layers[1].ffn).groups, 8);
  EXPECT_EQ(std::get<MoeSpec>(on->layers[1].ffn).top_groups, 4);
  const auto off =
      parse_patched(kKl, R"({"num_expert_group":8,"topk_group":4,"use_grouped_topk":false})");
  EXPECT_EQ(std::get<MoeSpec>(off->layers[1].ffn).groups, 1);
}

TEST(Config, dense_layers_follow_first_k_and_frequency) {
  const auto spec = parse_patched(kKl, R"({"first_k_dense_replace":3,"moe_layer_freq":2})");
  ASSERT_TRUE(spec) << spec.error().message;
  for (std::size_t l = 0; l < spec->layers.size(); ++l) {
    EXPECT_EQ(spec->layers[l].is_moe(), l >= 3 && l % 2 == 0) << l;
  }
}

TEST(Config, text_config_wins_over_the_wrapper_for_token_ids) {
  const auto inner = parse_patched(kK3, R"({"eos_token_id":7})");
  ASSERT_TRUE(inner) << inner.error().message;
  EXPECT_EQ(inner->eos_id, 163586);
  const auto outer =
      parse_patched(kK3, R"({"eos_token_id":7,"text_config":{"eos_token_id":null}})");
  ASSERT_TRUE(outer) << outer.error().message;
  EXPECT_EQ(outer->eos_id, 7);
}

TEST(Config, max_position_embeddings_wins_over_model_max_length) {
  const auto spec = parse_patched(kKl, R"({"max_position_embeddings":4096})");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->context_length, 4096);
}

TEST(Config, a_model_of_one_kind_of_layer_is_a_model) {
  const auto spec = parse_patched(
      kKl,
      R"({"num_hidden_layers":2,"linear_attn_config":{"kda_layers":[1,2],"full_attn_layers":[]}})");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->mla_layers(), 0);
}

TEST(Config, router_bias_in_weights_is_off_unless_asked_for) {
  const auto spec = parse_patched(kKl, R"({"router_bias_in_weights":true})");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_TRUE(std::get<MoeSpec>(spec->layers[1].ffn).bias_in_weights);
}

}  // namespace
}  // namespace tandem
