// Products with a weight and their gradients, decoding, the embedding.
#include "tensor/mxfp4.h"
#include "train/ops/gradient_check.h"
#include "train/ops/linear.h"
#include "train/products.h"

namespace tandem::train {
namespace {

struct LinearGradients : testing::Test {
  ThreadTeam team{2};
  RandomNumbers random{19};
};

TEST_F(LinearGradients, product_over_tile_edges) {
  for (const std::int64_t rows : {1, 4, 9}) {
    for (const std::int64_t inputs : {1, 16, 35}) {
      const std::int64_t outputs = 17;
      auto x = random.matrix<double>(rows, inputs, 1);
      auto w = random.matrix<double>(outputs, inputs, 1);
      const auto r = random.matrix<double>(rows, outputs, 1);
      const auto loss = [&] {
        Owned<double> y(rows, outputs);
        add_forward_product<double>(x.view(), w.view(), y.view(), team);
        return weighted_sum(y.values, r.values);
      };
      Owned<double> dx(rows, inputs), dw(outputs, inputs);
      add_input_gradient<double>(r.view(), w.view(), dx.view(), team);
      add_weight_gradient<double>(r.view(), x.view(), dw.view(), team);
      expect_gradient("x", x.values, dx.values, loss);
      expect_gradient("w", w.values, dw.values, loss);
    }
  }
}

// A row's gradient has the same bits in any batch and on any number of threads.
TEST_F(LinearGradients, bits_depend_on_neither_batch_nor_threads) {
  const auto dy = random.matrix<float>(11, 40, 1);
  const auto w = random.matrix<float>(40, 50, 1);
  Owned<float> together(11, 50), alone(11, 50);
  add_input_gradient<float>(dy.view(), w.view(), together.view(), team);
  ThreadTeam one(1);
  for (std::int64_t t = 0; t < 11; ++t) {
    add_input_gradient<float>({dy.view().row(t), 1, 40, 40}, w.view(),
                              {alone.view().row(t), 1, 50, 50}, one);
  }
  EXPECT_EQ(together.values, alone.values);
}

TEST_F(LinearGradients, decoding_a_packed_weight_is_exact) {
  const std::int64_t rows = 3, columns = 64;
  const auto values = random.vector<float>(rows * columns, 0.3);
  std::vector<std::uint8_t> packed(rows * columns / 2), scale(rows * columns / 32);
  mxfp4_encode(values, packed, scale);
  std::vector<float> expected(values.size());
  mxfp4_decode(packed, scale, expected);
  Owned<double> decoded(rows, columns);
  decode_weight<double>({DType::kMxfp4, packed.data(), scale.data(), rows, columns}, decoded.view(),
                        team);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(decoded.values[i], static_cast<double>(expected[i])) << i;
  }
}

TEST_F(LinearGradients, embedding_sums_over_equal_tokens) {
  const std::vector<TokenId> ids = {3, 0, 3};
  const auto dy = random.matrix<double>(3, 4, 1);
  Owned<double> dtable(5, 4);
  embed_backward<double>(ids, dy.view(), dtable.view());
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(dtable.view().row(3)[i], dy.view().row(0)[i] + dy.view().row(2)[i]);
    EXPECT_EQ(dtable.view().row(0)[i], dy.view().row(1)[i]);
    EXPECT_EQ(dtable.view().row(4)[i], 0);
  }
}

}  // namespace
}  // namespace tandem::train
