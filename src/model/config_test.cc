#include "model/config.h"

#include "model/test_checkpoint.h"

namespace tandem {
namespace {

using nlohmann::json;

std::string config_text(std::string_view name) {
  return read_text(source_folder() / "tests/data/configs" / (std::string(name) + ".config.json"));
}

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

struct BadConfig {
  const char* name;
  const char* base;
  const char* patch;
  std::vector<std::string> message;
};
class BadConfigTest : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigTest, is_refused_naming_file_field_and_expectation) {
  const auto spec = parse_patched(GetParam().base, GetParam().patch);
  ASSERT_FALSE(spec);
  std::vector<std::string> parts = GetParam().message;
  parts.push_back("dir/config.json: field '");
  expect_one_line(spec.error().message, parts);
  EXPECT_EQ(exit_code(spec.error().code), 2);
}

const char* const kK3 = "kimi-k3";
const char* const kKl = "kimi-linear-48b";

const BadConfig kBadConfigs[] = {
    {"unknown_architecture",
     kKl,
     R"({"architectures":["LlamaForCausalLM"]})",
     {"architectures", "KimiLinearForCausalLM", "got 'LlamaForCausalLM'"}},
    {"no_architecture", kKl, R"({"architectures":null})", {"architectures"}},
    {"two_architectures",
     kKl,
     R"({"architectures":["KimiLinearForCausalLM","B"]})",
     {"architectures"}},
    {"k3_without_text_config", kK3, R"({"text_config":null})", {"text_config", "an object"}},
    {"text_config_is_a_list", kK3, R"({"text_config":[]})", {"text_config", "got a list"}},
    {"unknown_activation",
     kKl,
     R"({"hidden_act":"gelu"})",
     {"'hidden_act'", "'silu' or 'situ'", "got 'gelu'"}},
    {"situ_without_gate_beta",
     kK3,
     R"({"text_config":{"activation_situ_beta":null}})",
     {"text_config.activation_situ_beta", "got nothing"}},
    {"situ_without_up_beta",
     kK3,
     R"({"text_config":{"activation_situ_linear_beta":null}})",
     {"text_config.activation_situ_linear_beta"}},
    {"softmax_router",
     kKl,
     R"({"moe_router_activation_func":"softmax"})",
     {"moe_router_activation_func", "'sigmoid'", "got 'softmax'"}},
    {"another_topk_method", kKl, R"({"topk_method":"greedy"})", {"topk_method", "'noaux_tc'"}},
    {"rotary_positions", kKl, R"({"mla_use_nope":false})", {"mla_use_nope", "got false"}},
    {"draft_layers",
     kK3,
     R"({"text_config":{"num_nextn_predict_layers":1}})",
     {"num_nextn_predict_layers", "got 1"}},
    {"indexer",
     kK3,
     R"({"text_config":{"index_topk":2048}})",
     {"text_config.index_topk", "indexer is not supported"}},
    {"grouped_queries",
     kKl,
     R"({"num_key_value_heads":8})",
     {"num_key_value_heads", "num_attention_heads", "got 8"}},
    {"zero_size", kKl, R"({"hidden_size":0})", {"'hidden_size'", "from 1 to", "got 0"}},
    {"negative_size", kKl, R"({"moe_intermediate_size":-4})", {"moe_intermediate_size", "got -4"}},
    {"fractional_size", kKl, R"({"hidden_size":2304.0})", {"hidden_size", "integer", "2304.0"}},
    {"text_size", kKl, R"({"hidden_size":"2304"})", {"hidden_size", "integer", "'2304'"}},
    {"size_as_boolean", kKl, R"({"num_experts":true})", {"num_experts", "got true"}},
    {"size_beyond_64_bits",
     kKl,
     R"({"vocab_size":18446744073709551615})",
     {"vocab_size", "got 18446744073709551615"}},
    {"size_that_would_overflow",
     kKl,
     R"({"intermediate_size":9223372036854775807})",
     {"intermediate_size"}},
    {"odd_head",
     kKl,
     R"({"linear_attn_config":{"head_dim":127}})",
     {"linear_attn_config.head_dim", "an even integer", "got 127"}},
    {"layer_in_neither_list",
     kKl,
     R"({"linear_attn_config":{"full_attn_layers":[4,8,12,16,20,24]}})",
     {"linear_attn_config.kda_layers", "each layer from 1 to 27", "layer 27 in neither"}},
    {"layer_in_both_lists",
     kKl,
     R"({"linear_attn_config":{"full_attn_layers":[1,4,8,12,16,20,24,27]}})",
     {"kda_layers", "layer 1 more than once"}},
    {"layer_twice_in_one_list",
     kKl,
     R"({"linear_attn_config":{"full_attn_layers":[4,8,8,12,16,20,24,27]}})",
     {"layer 8 more than once"}},
    {"layer_beyond_the_last",
     kKl,
     R"({"linear_attn_config":{"full_attn_layers":[4,8,12,16,20,24,27,28]}})",
     {"full_attn_layers", "from 1 to 27", "got 28"}},
    {"layers_counted_from_0",
     kKl,
     R"({"linear_attn_config":{"full_attn_layers":[0,4]}})",
     {"full_attn_layers", "got 0"}},
    {"lists_for_fewer_layers", kKl, R"({"num_hidden_layers":28})", {"layer 28 in neither"}},
    {"list_is_a_number",
     kKl,
     R"({"linear_attn_config":{"kda_layers":3}})",
     {"kda_layers", "a list of integers", "got 3"}},
    {"more_experts_a_token_than_experts",
     kKl,
     R"({"num_experts_per_token":257})",
     {"num_experts_per_token", "to 256", "got 257"}},
    {"groups_do_not_divide", kKl, R"({"num_expert_group":3})", {"num_expert_group", "divisor"}},
    {"groups_of_one",
     kKl,
     R"({"num_expert_group":256,"topk_group":8})",
     {"num_expert_group", "at least 2"}},
    {"groups_too_small_for_top_k",
     kKl,
     R"({"num_expert_group":64,"topk_group":1})",
     {"topk_group", "num_experts_per_token"}},
    {"more_top_groups_than_groups",
     kKl,
     R"({"num_expert_group":2,"topk_group":3})",
     {"topk_group", "to 2", "got 3"}},
    {"dense_layers_beyond_the_last",
     kKl,
     R"({"first_k_dense_replace":28})",
     {"first_k_dense_replace", "from 0 to 27"}},
    {"eps_zero", kKl, R"({"rms_norm_eps":0})", {"rms_norm_eps", "got 0"}},
    {"eps_as_text", kKl, R"({"rms_norm_eps":"1e-5"})", {"rms_norm_eps", "a number", "'1e-5'"}},
    {"scaling_negative", kKl, R"({"routed_scaling_factor":-1})", {"routed_scaling_factor"}},
    {"positive_decay_bound",
     kK3,
     R"({"text_config":{"linear_attn_config":{"gate_lower_bound":5.0}}})",
     {"text_config.linear_attn_config.gate_lower_bound", "got 5.0"}},
    {"bank_too_large",
     kK3,
     R"({"text_config":{"attn_res_block_size":1}})",
     {"attn_res_block_size", "at most 63 blocks", "got 1"}},
    {"token_id_outside_the_vocabulary",
     kKl,
     R"({"eos_token_id":163840})",
     {"eos_token_id", "to 163839", "got 163840"}},
    {"token_id_negative", kKl, R"({"bos_token_id":-1})", {"bos_token_id"}},
    {"other_quantization",
     kK3,
     R"({"text_config":{"quantization_config":{"format":"float-quantized"}}})",
     {"quantization_config.format", "'mxfp4-pack-quantized'", "got 'float-quantized'"}},
    {"quantization_is_text",
     kK3,
     R"({"text_config":{"quantization_config":"mxfp4"}})",
     {"quantization_config", "an object"}},
};
INSTANTIATE_TEST_SUITE_P(all, BadConfigTest, testing::ValuesIn(kBadConfigs), CaseName());

struct RequiredField {
  const char* base;
  const char* object;  // JSON pointer of the object that holds it
  const char* field;
};

TEST(Config, every_required_field_has_no_default) {
  const std::vector<const char*> in_text = {
      "hidden_size",           "num_hidden_layers",  "vocab_size",
      "intermediate_size",     "hidden_act",         "rms_norm_eps",
      "num_attention_heads",   "kv_lora_rank",       "qk_nope_head_dim",
      "qk_rope_head_dim",      "v_head_dim",         "num_experts",
      "num_experts_per_token", "num_shared_experts", "moe_intermediate_size",
      "first_k_dense_replace", "moe_renormalize",    "routed_scaling_factor",
      "linear_attn_config"};
  const std::vector<const char*> in_linear = {"num_heads", "head_dim", "short_conv_kernel_size",
                                              "kda_layers", "full_attn_layers"};
  std::vector<RequiredField> required;
  for (const char* field : in_text) {
    required.push_back({kKl, "", field});
    required.push_back({kK3, "/text_config", field});
  }
  for (const char* field : in_linear) {
    required.push_back({kKl, "/linear_attn_config", field});
    required.push_back({kK3, "/text_config/linear_attn_config", field});
  }
  required.push_back({kKl, "", "bos_token_id"});
  required.push_back({kKl, "", "eos_token_id"});
  required.push_back({kKl, "", "model_max_length"});
  for (const auto& [base, object, field] : required) {
    json config = json::parse(config_text(base));
    ASSERT_EQ(config[json::json_pointer(object)].erase(field), 1u) << field;
    const auto spec = parse_config(config.dump(), "c");
    ASSERT_FALSE(spec) << object << "/" << field;
    expect_one_line(spec.error().message, {"c: field '", field, "got nothing"});
  }
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

TEST(Config, text_that_is_no_json_object_is_refused_in_plain_words) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not valid JSON at byte 1"},
      {R"({"architectures":)", "not valid JSON at byte 18"},
      {"{\"a\":\"\xff\"}", "not valid JSON at byte 7"},
      {R"({"a":1e999})", "a number is out of range"},
      {"[1]", "expected a JSON object, got a list"},
      {std::string(100'000, '['), "not valid JSON"},
      {std::string((std::size_t{4} << 20) + 1, ' '), "expected at most 4194304"},
  };
  for (const auto& [text, message] : cases) {
    const auto spec = parse_config(text, "dir/config.json");
    ASSERT_FALSE(spec);
    expect_one_line(spec.error().message, {"dir/config.json: ", message});
    EXPECT_EQ(spec.error().message.find("json.exception"), std::string::npos);
  }
}

TEST(Config, folder_without_config_is_not_found) {
  const TempFolder folder;
  const auto spec = read_config(folder.path());
  EXPECT_EQ(spec.error().code, StatusCode::kNotFound);
  expect_one_line(spec.error().message, {(folder / "config.json").string(), "no such file"});
}

TEST(GenerationConfig, demo_defaults_are_read) {
  const auto defaults = read_generation_config(source_folder() / "models/demo");
  ASSERT_TRUE(defaults) << defaults.error().message;
  EXPECT_EQ(defaults->temperature, 1.0f);
  EXPECT_EQ(defaults->top_p, 0.95f);
  EXPECT_FALSE(defaults->top_k);
  EXPECT_EQ(defaults->eos_ids, std::vector<TokenId>{4066});
}

TEST(GenerationConfig, absent_file_and_absent_fields_leave_everything_unset) {
  const TempFolder folder;
  const auto none = read_generation_config(folder.path());
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->temperature);
  const auto empty = parse_generation_config(R"({"temperature":null})", "g");
  ASSERT_TRUE(empty);
  EXPECT_FALSE(empty->temperature);
  EXPECT_TRUE(empty->eos_ids.empty());
}

TEST(GenerationConfig, every_field_is_read) {
  const auto all = parse_generation_config(
      R"({"temperature":0,"top_p":0.5,"top_k":40,"repetition_penalty":1.1,"max_new_tokens":9,)"
      R"("eos_token_id":[5,6],"do_sample":true,"transformers_version":"5"})",
      "g");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->temperature, 0.0f);
  EXPECT_EQ(all->top_p, 0.5f);
  EXPECT_EQ(all->top_k, 40);
  EXPECT_FLOAT_EQ(*all->repetition_penalty, 1.1f);
  EXPECT_EQ(all->max_new_tokens, 9);
  EXPECT_EQ(all->eos_ids, (std::vector<TokenId>{5, 6}));
}

TEST(GenerationConfig, values_out_of_range_are_refused) {
  for (const auto& [text, field] : std::vector<std::pair<const char*, const char*>>{
           {R"({"temperature":-1})", "temperature"},
           {R"({"top_p":1.5})", "top_p"},
           {R"({"top_k":-1})", "top_k"},
           {R"({"repetition_penalty":0})", "repetition_penalty"},
           {R"({"max_new_tokens":0})", "max_new_tokens"},
           {R"({"eos_token_id":"x"})", "eos_token_id"},
           {R"({"eos_token_id":[1,-2]})", "eos_token_id"}}) {
    const auto parsed = parse_generation_config(text, "dir/generation_config.json");
    ASSERT_FALSE(parsed) << text;
    expect_one_line(parsed.error().message, {"dir/generation_config.json: field '", field, "got"});
  }
}

}  // namespace
}  // namespace tandem
