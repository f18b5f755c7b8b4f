#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/edited_checkpoint.h"

namespace tandem {
namespace {

class ShippedCheckpoint : public testing::TestWithParam<const char*> {};

TEST_P(ShippedCheckpoint, loads_and_every_tensor_is_read) {
  const auto weights = load_checkpoint(source_folder() / GetParam());
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_TRUE(weights->storage.empty()) << "matrices stay in the mapped files";
}

INSTANTIATE_TEST_SUITE_P(all, ShippedCheckpoint,
                         testing::Values("models/demo", "tests/data/golden/k3_tiny",
                                         "tests/data/golden/kimi_linear_tiny"));

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

}  // namespace
}  // namespace tandem
