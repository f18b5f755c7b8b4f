#include "engine/weight_bytes.h"

#include <gtest/gtest.h>

#include "engine/memory_plan.h"
#include "model/config.h"
#include "support/edited_checkpoint.h"
#include "support/temp_folder.h"

namespace tandem {
namespace {

ModelSpec read_spec(const std::filesystem::path& path) {
  return parse_config(read_text(path), path.string()).value();
}

ModelSpec k3() { return read_spec(source_folder() / "tests/data/configs/kimi-k3.config.json"); }

TEST(WeightBytesTest, k3s_experts_are_most_of_it) {
  ModelSpec packed = k3();
  ModelSpec plain = packed;
  plain.packed_experts = false;
  // 92 layers of 896 experts with three matrices of 3072 x 3584, at 17/32 of a byte an element.
  const std::int64_t elements = std::int64_t{92} * 896 * 3 * 3072 * 3584;
  EXPECT_EQ(weight_bytes(plain) - weight_bytes(packed), elements * 2 - elements / 32 * 17);
  EXPECT_GT(elements / 32 * 17, weight_bytes(packed) * 9 / 10);
}

TEST(WeightBytesTest, one_dense_layer_by_hand) {
  ModelSpec spec = k3();
  spec.layers.resize(1);
  const std::int64_t hidden = 7168, inner = 96 * 128;
  const std::int64_t attention = 5 * inner * hidden  // q, k, v, gate, out
                                 + 128 * hidden + inner * 128 + 96 * hidden;
  const std::int64_t matrices = attention + 3 * 33792 * hidden + 2 * 163840 * hidden;
  const std::int64_t floats = 3 * 4 * inner + 96 + inner + 128  // conv, rate, dt bias, norm
                              + 2 * hidden + 2 * hidden         // norms, mixes
                              + hidden + hidden;                // the model's mix and norm
  EXPECT_EQ(weight_bytes(spec), 2 * matrices + 4 * floats);
}

TEST(WeightBytesTest, tied_embeddings_count_once) {
  ModelSpec tied = k3();
  tied.tied_embeddings = true;
  EXPECT_EQ(weight_bytes(k3()) - weight_bytes(tied), std::int64_t{2} * 163840 * 7168);
}

TEST(WeightBytesTest, a_rank_holds_its_share_and_what_is_on_every_rank) {
  const std::int64_t hidden = 7168;
  const std::int64_t moe = 2 * (896 * hidden + 2 * 3584 * hidden) + 4 * (896 + 3584);
  const std::int64_t mla = 2 * (1536 + 576) * hidden + 4 * (1536 + 512);
  const std::int64_t kda = 2 * 128 * hidden + 4 * 128;
  const std::int64_t norms_and_mixes = 4 * 4 * hidden;
  const std::int64_t on_every_rank =
      92 * moe + 24 * mla + 69 * kda + 93 * norms_and_mixes + 2 * 4 * hidden;
  const std::int64_t rank = weight_bytes(spec_of_rank(k3(), 8).value());
  EXPECT_EQ(8 * rank, weight_bytes(k3()) + 7 * on_every_rank);
}

TEST(WeightBytesTest, files_say_what_is_packed) {
  const auto folder = source_folder() / "models/demo";
  const ModelSpec spec = read_config(folder).value();
  const Checkpoint files = Checkpoint::open(folder).value();
  EXPECT_EQ(weight_bytes(spec, &files), weight_bytes(spec));
  // Vectors are widened; nothing else differs from the files.
  EXPECT_GT(weight_bytes(spec, &files), files.total_bytes() * 99 / 100);
  EXPECT_LT(weight_bytes(spec, &files), files.total_bytes() * 101 / 100);
  ModelSpec announced_plain = spec;
  announced_plain.packed_experts = false;
  EXPECT_EQ(weight_bytes(announced_plain, &files), weight_bytes(spec, &files));
  EXPECT_GT(weight_bytes(announced_plain), weight_bytes(spec));
}

using StoredDTypeTest = EditedCheckpoint;

TEST_F(StoredDTypeTest, matrices_count_as_they_are_held) {
  use("kimi_linear_tiny");
  const std::string name = "model.embed_tokens.weight";
  const auto counted = [&] {
    content_.write(folder_.path());
    const Checkpoint files = Checkpoint::open(folder_.path()).value();
    return weight_bytes(read_config(folder_.path()).value(), &files);
  };
  const std::int64_t stored_bf16 = counted();
  EditableTensor& embedding = tensor(name);
  const auto bf16_bytes = static_cast<std::int64_t>(embedding.bytes.size());
  embedding.dtype = DType::kF16;  // widened when loaded
  EXPECT_EQ(counted(), stored_bf16 + bf16_bytes);
  embedding.dtype = DType::kF32;
  embedding.bytes += embedding.bytes;
  EXPECT_EQ(counted(), stored_bf16 + bf16_bytes);
}

}  // namespace
}  // namespace tandem
