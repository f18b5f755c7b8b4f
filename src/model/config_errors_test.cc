// Every way in which a configuration may be wrong, and the message for each.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/config.h"
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

// A merge patch (RFC 7386) on a shipped configuration: null removes a field.
Result<ModelSpec> parse_patched(std::string_view base, std::string_view patch) {
  json config = json::parse(config_text(base));
  config.merge_patch(json::parse(patch));
  return parse_config(config.dump(), "dir/config.json");
}

struct BadConfig : NamedCase {
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

}  // namespace
}  // namespace tandem
