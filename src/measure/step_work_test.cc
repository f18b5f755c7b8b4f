#include "measure/step_work.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/weight_bytes.h"
#include "model/config.h"
#include "model/weight_table.h"
#include "support/temp_folder.h"

namespace tandem::measure {
namespace {

// Weights with shapes and dtypes as a configuration announces them, and no data.
class ShapeVisitor final : public WeightVisitor {
 public:
  explicit ShapeVisitor(DType experts) : experts_(experts) {}

  void matrix(const std::string&, std::int64_t outputs, std::int64_t inputs,
              WeightMatrix& to) override {
    to = {.dtype = DType::kBF16, .outputs = outputs, .inputs = inputs};
  }
  void expert(const std::string&, std::int64_t outputs, std::int64_t inputs,
              WeightMatrix& to) override {
    to = {.dtype = experts_, .outputs = outputs, .inputs = inputs};
  }
  void vector(const std::string&, std::int64_t size, WeightVector& to) override {
    resize(to, size);
  }
  void head_rate(const std::string&, const KdaSpec& spec, WeightVector& to) override {
    resize(to, spec.heads);
  }
  void conv(const std::string&, std::int64_t, const KdaSpec& spec, WeightVector& to) override {
    resize(to, spec.conv_width * 3 * spec.inner());
  }
  void mix(const std::string&, std::int64_t size, WeightVector& to) override { resize(to, size); }

 private:
  static void resize(WeightVector& to, std::int64_t size) {
    to = WeightVector(static_cast<std::size_t>(size));
  }
  DType experts_;
};

struct Shapes {
  explicit Shapes(std::string_view name) {
    const auto path = source_folder() / "tests/data/configs" / (std::string(name) + ".config.json");
    spec = parse_config(read_text(path), path.string()).value();
    ShapeVisitor visitor(spec.packed_experts ? DType::kMxfp4 : DType::kBF16);
    visit_weights(spec, weights, visitor);
  }
  StepWork work(const StepShape& shape, Precision precision = Precision::kDefault) const {
    return step_work(spec, weights, memory_layout(spec, precision), shape);
  }

  ModelSpec spec;
  ModelWeights weights;
};

const Work& at(const StepWork& work, Stage stage) { return work[static_cast<std::size_t>(stage)]; }

StepShape one_token(double distinct_experts) {
  return {.sequences = 1,
          .rows_each = 1,
          .context = 255,
          .logit_rows = 1,
          .distinct_experts = distinct_experts};
}

TEST(StepWorkTest, a_token_of_k3_mid_reads_341_megabytes_of_weights) {
  const Shapes mid("k3-mid");
  const StepWork work = mid.work(one_token(8));
  EXPECT_EQ(std::floor(total(work).weight_bytes / 1e6), 341);
  // By hand: 8 KDA and 4 MLA layers, one dense and 11 routed blocks, bf16 but for the experts.
  const double inner = 1024, hidden = 1024, vectors = 4;
  EXPECT_EQ(at(work, Stage::kKdaProjections).weight_bytes,
            8 * 2 * (5 * inner * hidden + 2 * 128 * 1024 + 8 * hidden));
  EXPECT_EQ(
      at(work, Stage::kMlaProjections).weight_bytes,
      4 * (2 * (384 * hidden + 1536 * 384 + 320 * hidden + 2 * 1024 * hidden) + vectors * 384));
  EXPECT_EQ(at(work, Stage::kMlaAttention).weight_bytes, 4 * (2 * 2048 * 256 + vectors * 256));
  EXPECT_EQ(at(work, Stage::kExperts).weight_bytes, 11 * 8 * 3 * 512 * 512 * 17 / 32.0);
  EXPECT_EQ(at(work, Stage::kFfnProjections).weight_bytes,
            2 * 3 * 4096 * hidden + 11 * (2 * 3 * 1024 * hidden + 2 * 2 * 512 * hidden +
                                          vectors * 512 + 2 * 64 * hidden));
  EXPECT_EQ(at(work, Stage::kRouter).weight_bytes, 11 * vectors * 64);
  EXPECT_EQ(at(work, Stage::kHead).weight_bytes, 2 * 32000 * hidden);
  EXPECT_EQ(at(work, Stage::kEmbed).weight_bytes, 2 * hidden);
}

// Every expert once and one row of the embedding are all that the model holds, less the other rows
// and the mix before the first layer, where nothing is banked yet.
TEST(StepWorkTest, a_step_through_all_experts_reads_every_weight_once) {
  for (const char* name : {"k3-mid", "kimi-k3", "kimi-linear-48b"}) {
    const Shapes model(name);
    double experts = 0;
    for (const LayerSpec& layer : model.spec.layers) {
      if (layer.is_moe()) experts = static_cast<double>(std::get<MoeSpec>(layer.ffn).experts);
    }
    const auto row = static_cast<double>(2 * model.spec.hidden);
    const double unread = static_cast<double>(model.spec.vocab_size - 1) * row +
                          (model.spec.residual_block ? 2 * row : 0);
    EXPECT_EQ(total(model.work(one_token(experts))).weight_bytes,
              static_cast<double>(weight_bytes(model.spec)) - unread)
        << name;
  }
}

TEST(StepWorkTest, states_are_read_and_written_and_rows_are_read) {
  const Shapes mid("k3-mid");
  for (const Precision precision : {Precision::kDefault, Precision::kExact}) {
    const StateLayout layout = memory_layout(mid.spec, precision).total;
    const Work work = total(mid.work({.sequences = 3, .rows_each = 2, .context = 100}, precision));
    const auto state = static_cast<double>(3 * layout.state_bytes);
    const auto row = static_cast<double>(layout.row_bytes);
    EXPECT_EQ(work.memory_read_bytes, state + 3 * 102 * row);
    EXPECT_EQ(work.memory_write_bytes, state + 3 * 2 * row);
  }
}

TEST(StepWorkTest, products_take_two_flop_a_weight_and_token) {
  const Shapes mid("k3-mid");
  const StepWork one = mid.work(one_token(8));
  EXPECT_EQ(at(one, Stage::kHead).flop, 2.0 * 32000 * 1024);
  EXPECT_EQ(at(one, Stage::kKdaProjections).flop, at(one, Stage::kKdaProjections).weight_bytes);
  // Each of the 8 experts sees the token, whatever their number is in the batch.
  EXPECT_EQ(at(one, Stage::kExperts).flop, 11 * 8 * 3 * 2.0 * 512 * 512);
  const StepWork batch = mid.work(
      {.sequences = 8, .rows_each = 1, .context = 255, .logit_rows = 8, .distinct_experts = 40});
  for (std::size_t s = 0; s < kStageCount; ++s) EXPECT_EQ(batch[s].flop, 8 * one[s].flop);
}

TEST(StepWorkTest, attention_counts_each_position_that_a_token_sees) {
  const Shapes mid("k3-mid");
  const auto flop = [&](std::int64_t rows, std::int64_t context) {
    return at(mid.work({.sequences = 1, .rows_each = rows, .context = context}),
              Stage::kMlaAttention)
        .flop;
  };
  // 8 heads: a score over 320 elements, a sum over 256. One token sees 11 positions.
  EXPECT_EQ(flop(1, 11) - flop(1, 10), 4 * 8 * (2.0 * 320 + 2 * 256));
  EXPECT_EQ(flop(4, 0), flop(1, 0) + flop(1, 1) + flop(1, 2) + flop(1, 3));
}

TEST(StepWorkTest, a_step_without_logits_does_not_touch_the_head) {
  const StepWork work = Shapes("k3-mid").work({.sequences = 1, .rows_each = 16});
  EXPECT_EQ(at(work, Stage::kHead).read_bytes(), 0);
  EXPECT_EQ(at(work, Stage::kHead).flop, 0);
}

TEST(StepWorkTest, distinct_experts_grow_with_the_batch_up_to_all) {
  EXPECT_NEAR(expected_distinct_experts(896, 16, 1), 16, 1e-9);
  EXPECT_NEAR(expected_distinct_experts(896, 16, 8), 120.3, 0.05);
  EXPECT_NEAR(expected_distinct_experts(64, 8, 8), 64 * (1 - std::pow(0.875, 8)), 1e-9);
  EXPECT_NEAR(expected_distinct_experts(64, 8, 1000), 64, 1e-9);
}

}  // namespace
}  // namespace tandem::measure
