// Every way in which weights may not fit a configuration, and the message for each.
#include <cstring>

#include "support/edited_checkpoint.h"

namespace tandem {
namespace {

const std::string kK3Layer0 = "language_model.model.layers.0.";
const std::string kKlLayer0 = "model.layers.0.";

// What is wrong with a checkpoint, and what the message must name.
struct BadWeights : NamedCase {
  const char* base;
  void (*apply)(EditableCheckpoint& content);
  std::vector<std::string> message;
};
class BadWeightsTest : public EditedCheckpoint, public testing::WithParamInterface<BadWeights> {};

TEST_P(BadWeightsTest, are_refused_naming_file_tensor_and_expectation) {
  use(GetParam().base);
  GetParam().apply(content_);
  const auto weights = load_edited();
  ASSERT_FALSE(weights);
  std::vector<std::string> parts = GetParam().message;
  parts.push_back((folder_ / "model.safetensors").string() + ": tensor '");
  expect_one_line(weights.error().message, parts);
  EXPECT_EQ(exit_code(weights.error().code), 2);
}

EditableTensor& at(EditableCheckpoint& content, const std::string& name) {
  return content.tensors.at(name);
}
const std::string kExpert = "language_model.model.layers.1.block_sparse_moe.experts.0.w1.weight";

const BadWeights kBadWeights[] = {
    {"missing_matrix",
     "k3_tiny",
     [](auto& c) { c.tensors.erase(kK3Layer0 + "self_attn.q_proj.weight"); },
     {"layers.0.self_attn.q_proj.weight' is missing", "[96, 192]"}},
    {"missing_vector",
     "kimi_linear_tiny",
     [](auto& c) { c.tensors.erase("model.norm.weight"); },
     {"'model.norm.weight' is missing", "[128]"}},
    {"missing_head",
     "kimi_linear_tiny",
     [](auto& c) { c.tensors.erase("lm_head.weight"); },
     {"'lm_head.weight' is missing", "[512, 128]"}},
    {"missing_output_mix",
     "k3_tiny",
     [](auto& c) { c.tensors.erase("language_model.model.output_attn_res_proj.weight"); },
     {"output_attn_res_proj.weight' is missing", "[1, 192]"}},
    {"missing_unused_mix_of_layer_0",
     "k3_tiny",
     [](auto& c) { c.tensors.erase(kK3Layer0 + "self_attention_res_norm.weight"); },
     {"layers.0.self_attention_res_norm.weight' is missing"}},
    {"missing_a_log",
     "k3_tiny",
     [](auto& c) { c.tensors.erase(kK3Layer0 + "self_attn.A_log"); },
     {"A_log' is missing", "[3]"}},
    {"missing_scale",
     "k3_tiny",
     [](auto& c) { c.tensors.erase(kExpert + "_scale"); },
     {"w1.weight_scale' is missing", "[96, 2]"}},
    {"missing_packed",
     "k3_tiny",
     [](auto& c) { c.tensors.erase(kExpert + "_packed"); },
     {"w1.weight_packed' is missing", "[96, 32]"}},
    {"missing_expert",
     "kimi_linear_tiny",
     [](auto& c) { c.tensors.erase("model.layers.1.block_sparse_moe.experts.7.w2.weight"); },
     {"experts.7.w2.weight' is missing", "[128, 64]"}},
    {"wrong_shape",
     "k3_tiny",
     [](auto& c) {
       at(c, kK3Layer0 + "self_attn.q_proj.weight").shape = {192, 96};
     },
     {"q_proj.weight' has shape [192, 96]; expected [96, 192]"}},
    {"wrong_rank",
     "k3_tiny",
     [](auto& c) {
       at(c, "language_model.model.norm.weight").shape = {1, 192};
     },
     {"norm.weight' has shape [1, 192]; expected [192]"}},
    {"matrix_of_bytes",
     "k3_tiny",
     [](auto& c) {
       at(c, kK3Layer0 + "self_attn.q_proj.weight") = {
           DType::kU8, {96, 192}, std::string(96 * 192, 'x')};
     },
     {"q_proj.weight' has dtype U8; expected BF16 or F32 or F16"}},
    {"packed_as_floats",
     "k3_tiny",
     [](auto& c) {
       at(c, kExpert + "_packed") = {DType::kBF16, {96, 32}, std::string(96 * 32 * 2, 'x')};
     },
     {"w1.weight_packed' has dtype BF16; expected U8"}},
    {"packed_shape",
     "k3_tiny",
     [](auto& c) {
       at(c, kExpert + "_packed").shape = {48, 64};
     },
     {"w1.weight_packed' has shape [48, 64]; expected [96, 32]"}},
    {"scale_shape",
     "k3_tiny",
     [](auto& c) {
       at(c, kExpert + "_scale").shape = {2, 96};
     },
     {"w1.weight_scale' has shape [2, 96]; expected [96, 2]"}},
    {"scale_byte_of_nan",
     "k3_tiny",
     [](auto& c) { at(c, kExpert + "_scale").bytes[7] = '\xff'; },
     {"w1.weight_scale' holds the scale byte 255", "at [3, 1]", "expected 0 to 254"}},
    {"not_finite_norm",
     "k3_tiny",
     [](auto& c) {
       EditableTensor& norm = at(c, "language_model.model.norm.weight");
       norm.bytes[6] = '\x80';  // bf16 0x7f80 is infinity
       norm.bytes[7] = '\x7f';
     },
     {"norm.weight' holds inf at 3", "finite"}},
    {"a_log_too_short",
     "k3_tiny",
     [](auto& c) {
       at(c, kK3Layer0 + "self_attn.A_log") = {DType::kF32, {2}, std::string(8, '\0')};
     },
     {"A_log' has shape [2]", "n >= 3", "[1, 1, 3, 1]"}},
    {"a_log_tail",
     "k3_tiny",
     [](auto& c) { at(c, kK3Layer0 + "self_attn.A_log").bytes[4 * 20 + 3] = '\x40'; },
     {"A_log' holds 2 at 20", "zeros after the 3 heads"}},
    {"a_log_overflows",
     "k3_tiny",
     [](auto& c) {
       const float huge = 100.0f;
       std::memcpy(at(c, kK3Layer0 + "self_attn.A_log").bytes.data(), &huge, 4);
     },
     {"A_log' holds 100 at 0", "finite exponential"}},
    {"tensor_that_nothing_reads",
     "k3_tiny",
     [](auto& c) {
       c.tensors[kK3Layer0 + "self_attn.q_proj.bias"] = {DType::kU8, {1}, "x"};
     },
     {"q_proj.bias' is no part of the model", "(1 in all)"}},
    {"packed_and_unpacked_at_once",
     "k3_tiny",
     [](auto& c) {
       c.tensors[kExpert] = {DType::kU8, {1}, "x"};
     },
     {"w1.weight' is no part of the model"}},
    {"layers_cut_in_config_only",
     "kimi_linear_tiny",
     [](auto& c) {
       c.config["num_hidden_layers"] = 4;
       c.config["linear_attn_config"]["kda_layers"] = {1, 2, 3};
     },
     {"'model.layers.4.", "is no part of the model that config.json describes"}},
    {"experts_cut_in_config_only",
     "kimi_linear_tiny",
     [](auto& c) { c.config["num_experts"] = 7; },
     {"gate.weight' has shape [8, 128]; expected [7, 128]"}},
    {"kda_layer_read_as_mla",
     "kimi_linear_tiny",
     [](auto& c) {
       c.config["linear_attn_config"]["kda_layers"] = {2, 3, 5};
       c.config["linear_attn_config"]["full_attn_layers"] = {1, 4};
     },
     {"model.layers.0.self_attn.q_proj.weight' has shape [128, 128]; expected [96, 128]"}},
    {"tied_but_with_a_head",
     "kimi_linear_tiny",
     [](auto& c) { c.config["tie_word_embeddings"] = true; },
     {"'lm_head.weight' is no part of the model"}},
};
INSTANTIATE_TEST_SUITE_P(all, BadWeightsTest, testing::ValuesIn(kBadWeights), CaseName());

}  // namespace
}  // namespace tandem
