#include "model/weights.h"

#include <cmath>
#include <cstring>

#include "model/config.h"
#include "model/test_checkpoint.h"
#include "tensor/mxfp4.h"

namespace tandem {
namespace {

Result<ModelWeights> load(const std::filesystem::path& folder, const LoadOptions& options = {}) {
  const ModelSpec spec = TRY(read_config(folder));
  return load_weights(spec, TRY(Checkpoint::open(folder)), options);
}

std::filesystem::path golden(std::string_view name) {
  return source_folder() / "tests/data/golden" / name;
}

class ShippedCheckpoint : public testing::TestWithParam<const char*> {};

TEST_P(ShippedCheckpoint, loads_and_every_tensor_is_read) {
  const auto weights = load(source_folder() / GetParam());
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_TRUE(weights->storage.empty()) << "matrices stay in the mapped files";
}

INSTANTIATE_TEST_SUITE_P(all, ShippedCheckpoint,
                         testing::Values("models/demo", "tests/data/golden/k3_tiny",
                                         "tests/data/golden/kimi_linear_tiny"));

// A golden checkpoint, changed by a test, written and loaded.
class EditedCheckpoint : public testing::Test {
 protected:
  void use(std::string_view name) { content_ = EditableCheckpoint::read(golden(name)); }
  EditableTensor& tensor(const std::string& name) { return content_.tensors.at(name); }
  Result<ModelWeights> load_edited(const LoadOptions& options = {}) {
    content_.write(folder_.path());
    return load(folder_.path(), options);
  }
  ModelWeights must_load() {
    auto weights = load_edited();
    if (!weights) throw std::runtime_error(weights.error().message);
    return *std::move(weights);
  }
  static std::vector<float> floats(const EditableTensor& tensor) {
    std::vector<float> values(tensor.bytes.size() / element_bytes(tensor.dtype));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (tensor.dtype == DType::kBF16) {
        BF16 element;
        std::memcpy(&element, tensor.bytes.data() + 2 * i, 2);
        values[i] = to_float(element);
      } else {
        std::memcpy(&values[i], tensor.bytes.data() + 4 * i, 4);
      }
    }
    return values;
  }
  static void set_floats(EditableTensor& tensor, const std::vector<float>& values) {
    tensor.dtype = DType::kF32;
    tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  }

  EditableCheckpoint content_;
  TempFolder folder_;
};

const std::string kK3Layer0 = "language_model.model.layers.0.";
const std::string kKlLayer0 = "model.layers.0.";

TEST_F(EditedCheckpoint, matrices_point_into_the_file) {
  use("kimi_linear_tiny");
  const ModelWeights weights = must_load();
  const auto& kda = std::get<KdaWeights>(weights.layers[0].attention);
  const Checkpoint& checkpoint = weights.checkpoint;
  EXPECT_EQ(kda.q.data,
            checkpoint.bytes(*checkpoint.find(kKlLayer0 + "self_attn.q_proj.weight")).data());
  EXPECT_EQ(kda.q.dtype, DType::kBF16);
  EXPECT_EQ(kda.q.outputs, 128);
  EXPECT_EQ(kda.q.inputs, 128);
  EXPECT_EQ(kda.gate.data, nullptr);  // low-rank gate
  EXPECT_EQ(kda.gate_up.outputs, 128);
  EXPECT_EQ(weights.output_mix.size(), 0u);  // plain residual stream
}

TEST_F(EditedCheckpoint, packed_experts_stay_packed_in_the_file) {
  use("k3_tiny");
  const ModelWeights weights = must_load();
  const auto& moe = std::get<MoeWeights>(weights.layers[1].ffn);
  ASSERT_EQ(moe.experts.size(), 12u);
  const WeightMatrix& down = moe.experts[11].down;
  const std::string stem = "language_model.model.layers.1.block_sparse_moe.experts.11.w2.weight_";
  const Checkpoint& checkpoint = weights.checkpoint;
  EXPECT_EQ(down.dtype, DType::kMxfp4);
  EXPECT_EQ(down.outputs, 64);
  EXPECT_EQ(down.inputs, 96);
  EXPECT_EQ(down.data, checkpoint.bytes(*checkpoint.find(stem + "packed")).data());
  EXPECT_EQ(static_cast<const void*>(down.scale),
            checkpoint.bytes(*checkpoint.find(stem + "scale")).data());
}

TEST_F(EditedCheckpoint, gate_up_and_down_are_w1_w3_and_w2) {
  use("kimi_linear_tiny");
  const ModelWeights weights = must_load();
  const auto& expert = std::get<MoeWeights>(weights.layers[1].ffn).experts[2];
  const auto at = [&](const char* w) {
    const std::string name = "model.layers.1.block_sparse_moe.experts.2." + std::string(w);
    return weights.checkpoint.bytes(*weights.checkpoint.find(name + ".weight")).data();
  };
  EXPECT_EQ(expert.gate.data, at("w1"));
  EXPECT_EQ(expert.up.data, at("w3"));
  EXPECT_EQ(expert.down.data, at("w2"));
}

TEST_F(EditedCheckpoint, convolutions_are_joined_and_transposed) {
  use("k3_tiny");
  const ModelWeights weights = must_load();
  const auto& kda = std::get<KdaWeights>(weights.layers[0].attention);
  const std::size_t inner = 96, width = 4;
  ASSERT_EQ(kda.conv.size(), width * 3 * inner);
  const char* const parts[] = {"q", "k", "v"};
  for (std::size_t p = 0; p < 3; ++p) {
    const auto taps =
        floats(tensor(kK3Layer0 + "self_attn." + std::string(parts[p]) + "_conv1d.weight"));
    for (std::size_t c = 0; c < inner; ++c) {
      for (std::size_t j = 0; j < width; ++j) {
        ASSERT_EQ(kda.conv[j * 3 * inner + p * inner + c], taps[c * width + j]);
      }
    }
  }
}

TEST_F(EditedCheckpoint, convolution_without_its_middle_dimension_is_the_same) {
  use("k3_tiny");
  const ModelWeights before = must_load();
  for (auto& [name, tensor] : content_.tensors) {
    if (name.ends_with("conv1d.weight")) tensor.shape = {96, 4};
  }
  const ModelWeights after = must_load();
  const auto& a = std::get<KdaWeights>(before.layers[0].attention).conv;
  const auto& b = std::get<KdaWeights>(after.layers[0].attention).conv;
  EXPECT_TRUE(std::equal(a.data(), a.data() + a.size(), b.data()));
}

TEST_F(EditedCheckpoint, a_log_is_read_from_every_shape_that_exists) {
  use("k3_tiny");
  EditableTensor& a_log = tensor(kK3Layer0 + "self_attn.A_log");
  const std::vector<float> logs = {0.5f, -0.25f, 1.0f};
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{3}, {32}, {128}, {1, 1, 3, 1}}) {
    a_log.shape = shape;
    std::vector<float> stored = logs;
    if (shape.size() == 1) stored.resize(static_cast<std::size_t>(shape[0]));
    set_floats(a_log, stored);
    const ModelWeights weights = must_load();
    const auto& rate = std::get<KdaWeights>(weights.layers[0].attention).head_rate;
    ASSERT_EQ(rate.size(), 3u);
    for (std::size_t h = 0; h < 3; ++h) EXPECT_FLOAT_EQ(rate[h], std::exp(logs[h]));
  }
}

TEST_F(EditedCheckpoint, mix_query_is_norm_times_projection) {
  use("k3_tiny");
  const ModelWeights weights = must_load();
  const auto expect_product = [&](const WeightVector& query, const std::string& stem) {
    const auto norm = floats(tensor(stem + "_norm.weight"));
    const auto projection = floats(tensor(stem + "_proj.weight"));
    ASSERT_EQ(query.size(), norm.size());
    for (std::size_t i = 0; i < norm.size(); ++i) ASSERT_EQ(query[i], norm[i] * projection[i]);
  };
  expect_product(weights.layers[3].attention_mix,
                 "language_model.model.layers.3.self_attention_res");
  expect_product(weights.layers[3].ffn_mix, "language_model.model.layers.3.mlp_res");
  expect_product(weights.output_mix, "language_model.model.output_attn_res");
}

TEST_F(EditedCheckpoint, f32_matrices_stay_in_the_file_and_f16_is_widened) {
  use("kimi_linear_tiny");
  EditableTensor& q = tensor(kKlLayer0 + "self_attn.q_proj.weight");
  set_floats(q, floats(q));
  EditableTensor& k = tensor(kKlLayer0 + "self_attn.k_proj.weight");
  k.dtype = DType::kF16;
  k.bytes[0] = 0x00;  // half 0x3e00 is 1.5
  k.bytes[1] = 0x3e;
  const ModelWeights weights = must_load();
  const auto& kda = std::get<KdaWeights>(weights.layers[0].attention);
  EXPECT_EQ(kda.q.dtype, DType::kF32);
  EXPECT_EQ(static_cast<const float*>(kda.q.data)[5], floats(q)[5]);
  EXPECT_EQ(kda.k.dtype, DType::kF32);
  EXPECT_EQ(static_cast<const float*>(kda.k.data)[0], 1.5f);
}

TEST_F(EditedCheckpoint, misaligned_matrices_are_copied) {
  use("kimi_linear_tiny");
  // A vision tensor of one byte sorts before the rest of its file and shifts everything.
  content_.tensors["mm_projector.a"] = {DType::kU8, {1}, "x"};
  const ModelWeights weights = must_load();
  const auto& q = std::get<KdaWeights>(weights.layers[0].attention).q;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(q.data) % 2, 0u);
  EXPECT_FALSE(weights.storage.empty());
  const std::string& bytes = tensor(kKlLayer0 + "self_attn.q_proj.weight").bytes;
  EXPECT_EQ(std::memcmp(q.data, bytes.data(), bytes.size()), 0);
}

TEST_F(EditedCheckpoint, vision_tensors_are_set_aside) {
  use("k3_tiny");
  content_.tensors["vision_tower.patch_embed.weight"] = {DType::kU8, {2}, "xy"};
  content_.tensors["mm_projector.linear.weight"] = {DType::kU8, {2}, "xy"};
  EXPECT_TRUE(load_edited());
}

TEST_F(EditedCheckpoint, experts_may_be_unpacked_in_any_family) {
  use("k3_tiny");
  const std::string stem = "language_model.model.layers.1.block_sparse_moe.experts.0.w1.weight";
  const EditableTensor packed = tensor(stem + "_packed");
  content_.tensors.erase(stem + "_packed");
  content_.tensors.erase(stem + "_scale");
  content_.tensors[stem] = {DType::kBF16, {96, 64}, std::string(96 * 64 * 2, '\0')};
  const ModelWeights weights = must_load();
  const auto& moe = std::get<MoeWeights>(weights.layers[1].ffn);
  EXPECT_EQ(moe.experts[0].gate.dtype, DType::kBF16);
  EXPECT_EQ(moe.experts[0].up.dtype, DType::kMxfp4);
}

TEST_F(EditedCheckpoint, tied_embeddings_need_no_head) {
  use("kimi_linear_tiny");
  content_.config["tie_word_embeddings"] = true;
  content_.tensors.erase("lm_head.weight");
  const ModelWeights weights = must_load();
  EXPECT_EQ(weights.head.data, weights.embedding.data);
}

TEST_F(EditedCheckpoint, progress_rises_to_one) {
  use("kimi_linear_tiny");
  std::vector<double> shares;
  const LoadOptions options = {.progress =
                                   [](double share, void* context) {
                                     static_cast<std::vector<double>*>(context)->push_back(share);
                                   },
                               .progress_context = &shares};
  ASSERT_TRUE(load_edited(options));
  ASSERT_FALSE(shares.empty());
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.back(), 1.0);
  EXPECT_EQ(std::count(shares.begin(), shares.end(), 1.0), 1);
}

// What is wrong with a checkpoint, and what the message must name.
struct BadWeights {
  const char* name;
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
