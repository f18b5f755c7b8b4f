// KDA: convolution, gates and the delta rule in both backward forms, against central differences in
// fp64, and against the reference kernels.
#include "kernels/kernel_set.h"
#include "train/ops/gradient_check.h"
#include "train/ops/kda.h"

namespace tandem::train {
namespace {

struct KdaGradients : testing::Test {
  ThreadTeam team{2};
  RandomNumbers random{11};
};

TEST_F(KdaGradients, short_conv_stays_inside_its_sequence) {
  const std::vector<PackedSequence> sequences = {{0, 6}, {6, 2}, {8, 1}};
  auto x = random.matrix<double>(9, 10, 1.2);
  auto w = random.vector<float>(4 * 10, 0.6);
  const auto r = random.vector<double>(90, 1);
  const auto loss = [&] {
    Owned<double> y(9, 10);
    short_conv<double>(x.view(), w.data(), 4, sequences, y.view());
    return weighted_sum(y.values, r);
  };
  Owned<double> dx(9, 10), dw(4, 10);
  short_conv_backward<double>(x.view(), w.data(), 4, sequences, {r.data(), 9, 10, 10}, dx.view(),
                              dw.values.data(), team);
  expect_gradient("x", x.values, dx.values, loss);
  expect_gradient("weight", w, dw.values, loss, 1e-2);
}

TEST_F(KdaGradients, gates_bounded_and_unbounded) {
  for (const std::optional<float> bound : {std::optional<float>(-5.0f), std::optional<float>()}) {
    auto decay_logits = random.matrix<double>(5, 6, 1.5);
    auto beta_logits = random.matrix<double>(5, 2, 1.5);
    auto dt_bias = random.vector<float>(6, 0.5);
    const std::vector<float> head_rate = {1.4f, 0.6f};
    const auto r = random.vector<double>(30, 1);
    const auto rb = random.vector<double>(10, 1);
    const auto loss_at = [&](const std::vector<float>& rate) {
      Owned<double> g(5, 6), beta(5, 2);
      kda_gates<double>({dt_bias.data(), rate.data(), bound, 2}, decay_logits.view(),
                        beta_logits.view(), g.view(), beta.view());
      return weighted_sum(g.values, r) + weighted_sum(beta.values, rb);
    };
    const auto loss = [&] { return loss_at(head_rate); };
    Owned<double> ddecay(5, 6), dbeta(5, 2), ddt(1, 6), da_log(1, 2);
    kda_gates_backward<double>({dt_bias.data(), head_rate.data(), bound, 2}, decay_logits.view(),
                               beta_logits.view(), {r.data(), 5, 6, 6}, {rb.data(), 5, 2, 2},
                               ddecay.view(), dbeta.view(),
                               {ddt.values.data(), da_log.values.data()});
    expect_gradient("decay", decay_logits.values, ddecay.values, loss);
    expect_gradient("beta", beta_logits.values, dbeta.values, loss);
    expect_gradient("dt_bias", dt_bias, ddt.values, loss, 1e-3);
    // By the rate itself: d/d log(rate) = rate d/d rate.
    std::vector<float> rate = head_rate;
    std::vector<double> drate = da_log.values;
    for (std::size_t h = 0; h < 2; ++h) drate[h] /= head_rate[h];
    expect_gradient(
        "head_rate", rate, drate, [&] { return loss_at(rate); }, 1e-3);
  }
}

using DeltaRuleBackward = void (*)(const DeltaRuleShape&, ConstDeltaRuleRows<double>,
                                   std::span<const PackedSequence>, ConstRows<double>,
                                   DeltaRuleRows<double>, ThreadTeam&);

template <typename T>
struct DeltaRuleValues {
  Owned<T> qkv, decay, beta;

  DeltaRuleValues() = default;
  DeltaRuleValues(std::int64_t rows, const DeltaRuleShape& shape)
      : qkv(rows, 3 * shape.heads * shape.head_dim),
        decay(rows, shape.heads * shape.head_dim),
        beta(rows, shape.heads) {}
  // All three, one after the other.
  std::vector<T> joined() const {
    std::vector<T> all = qkv.values;
    all.insert(all.end(), decay.values.begin(), decay.values.end());
    all.insert(all.end(), beta.values.begin(), beta.values.end());
    return all;
  }
  DeltaRuleRows<T> rows() { return {qkv.view(), decay.view(), beta.view()}; }
  ConstDeltaRuleRows<T> const_rows() const { return {qkv.view(), decay.view(), beta.view()}; }
};

template <typename T>
DeltaRuleValues<T> random_inputs(RandomNumbers& random, std::int64_t rows,
                                 const DeltaRuleShape& shape, double decay) {
  DeltaRuleValues<T> in(rows, shape);
  in.qkv = random.matrix<T>(rows, in.qkv.columns, 1);
  in.decay = random.matrix<T>(rows, in.decay.columns, decay / 4);
  for (T& g : in.decay.values) g = -std::abs(g - static_cast<T>(decay));
  in.beta = random.matrix<T>(rows, in.beta.columns, 1);
  for (T& b : in.beta.values) b = sigmoid(b);
  return in;
}

class DeltaRuleGradients : public testing::TestWithParam<DeltaRuleBackward> {
 protected:
  ThreadTeam team{2};
  RandomNumbers random{13};
};

TEST_P(DeltaRuleGradients, against_differences_over_segments_and_sequences) {
  const DeltaRuleShape shape{.heads = 2, .head_dim = 5};
  const std::vector<PackedSequence> sequences = {{0, 1}, {1, 35}, {36, 16}};
  for (const double decay : {0.05, 1.0}) {
    auto in = random_inputs<double>(random, 52, shape, decay);
    const auto r = random.matrix<double>(52, 10, 1);
    const auto loss = [&] {
      Owned<double> o(52, 10);
      delta_rule<double>(shape, in.const_rows(), sequences, o.view(), team);
      return weighted_sum(o.values, r.values);
    };
    DeltaRuleValues<double> grad(52, shape);
    GetParam()(shape, in.const_rows(), sequences, r.view(), grad.rows(), team);
    expect_gradient("qkv", in.qkv.values, grad.qkv.values, loss);
    expect_gradient("decay", in.decay.values, grad.decay.values, loss);
    expect_gradient("beta", in.beta.values, grad.beta.values, loss);
  }
}

// The state underflows to zero between neighbours: no gradient may become NaN.
TEST_P(DeltaRuleGradients, decays_without_a_bound_stay_finite) {
  const DeltaRuleShape shape{.heads = 1, .head_dim = 4};
  const std::vector<PackedSequence> sequences = {{0, 33}};
  auto in = random_inputs<double>(random, 33, shape, 2000);
  DeltaRuleValues<double> grad(33, shape);
  const auto r = random.matrix<double>(33, 4, 1);
  GetParam()(shape, in.const_rows(), sequences, r.view(), grad.rows(), team);
  for (const double g : grad.qkv.values) ASSERT_TRUE(std::isfinite(g));
  for (const double g : grad.decay.values) ASSERT_TRUE(std::isfinite(g));
}

// rl.md, I-6: the packed gradient has the bits of each sequence alone.
TEST_P(DeltaRuleGradients, packed_is_each_alone_bit_for_bit) {
  const DeltaRuleShape shape{.heads = 2, .head_dim = 8};
  const std::vector<PackedSequence> sequences = {{0, 20}, {20, 7}};
  const auto in = random_inputs<double>(random, 27, shape, 0.3);
  const auto r = random.matrix<double>(27, 16, 1);
  DeltaRuleValues<double> packed(27, shape), alone(27, shape);
  GetParam()(shape, in.const_rows(), sequences, r.view(), packed.rows(), team);
  for (const PackedSequence& sequence : sequences) {
    GetParam()(shape, in.const_rows(), {&sequence, 1}, r.view(), alone.rows(), team);
  }
  EXPECT_EQ(packed.qkv.values, alone.qkv.values);
  EXPECT_EQ(packed.decay.values, alone.decay.values);
  EXPECT_EQ(packed.beta.values, alone.beta.values);
}

INSTANTIATE_TEST_SUITE_P(Forms, DeltaRuleGradients,
                         testing::Values(&delta_rule_backward_recurrent<double>,
                                         &delta_rule_backward_chunked<double>),
                         [](const auto& test) {
                           return std::string(test.index == 0 ? "recurrent" : "chunked");
                         });

// rl.md, I-5 and I-3: both forms are one function; fp32 strays little over 512 tokens.
TEST_F(KdaGradients, chunked_equals_recurrent) {
  const DeltaRuleShape shape{.heads = 2, .head_dim = 16};
  for (const std::int64_t rows : {1, 7, 16, 64, 101, 512}) {
    const std::vector<PackedSequence> sequences = {{0, rows}};
    const auto in = random_inputs<double>(random, rows, shape, 0.2);
    const auto r = random.matrix<double>(rows, 32, 1);
    DeltaRuleValues<double> recurrent(rows, shape), chunked(rows, shape);
    delta_rule_backward_recurrent<double>(shape, in.const_rows(), sequences, r.view(),
                                          recurrent.rows(), team);
    delta_rule_backward_chunked<double>(shape, in.const_rows(), sequences, r.view(), chunked.rows(),
                                        team);
    EXPECT_LE(relative_error(chunked.joined(), recurrent.joined()), 1e-12) << rows;

    DeltaRuleValues<float> narrow(rows, shape), single(rows, shape);
    narrow.qkv.values.assign(in.qkv.values.begin(), in.qkv.values.end());
    narrow.decay.values.assign(in.decay.values.begin(), in.decay.values.end());
    narrow.beta.values.assign(in.beta.values.begin(), in.beta.values.end());
    Owned<float> rf(rows, 32);
    rf.values.assign(r.values.begin(), r.values.end());
    delta_rule_backward_chunked<float>(shape, narrow.const_rows(), sequences, rf.view(),
                                       single.rows(), team);
    EXPECT_LE(relative_error(single.joined(), recurrent.joined()), 5e-5) << rows;
  }
}

// What is kept from head to head does not reach the next one, whatever their sizes.
TEST_F(KdaGradients, heads_of_any_size_follow_each_other) {
  ThreadTeam one(1);
  for (const std::int64_t d : {6, 16, 5, 12}) {
    const DeltaRuleShape shape{.heads = 1, .head_dim = d};
    const std::vector<PackedSequence> sequences = {{0, 37}};
    const auto in = random_inputs<double>(random, 37, shape, 0.2);
    const auto r = random.matrix<double>(37, d, 1);
    DeltaRuleValues<double> recurrent(37, shape), chunked(37, shape);
    delta_rule_backward_recurrent<double>(shape, in.const_rows(), sequences, r.view(),
                                          recurrent.rows(), one);
    delta_rule_backward_chunked<double>(shape, in.const_rows(), sequences, r.view(), chunked.rows(),
                                        one);
    EXPECT_LE(relative_error(chunked.joined(), recurrent.joined()), 1e-12) << d;
  }
}

TEST_F(KdaGradients, forward_values_are_those_of_the_reference_kernels) {
  const std::int64_t rows = 40, heads = 2, d = 8, inner = heads * d;
  const DeltaRuleShape shape{heads, d};
  const std::vector<PackedSequence> packed = {{0, 37}, {37, 3}};
  const auto in = random_inputs<float>(random, rows, shape, 0.3);
  std::vector<float> states(static_cast<std::size_t>(2 * heads * d * d));
  std::vector<float> windows(static_cast<std::size_t>(2 * 3 * 3 * inner));
  const std::vector<KdaSequence> sequences = {
      {0, 37, states.data(), reinterpret_cast<std::byte*>(windows.data())},
      {37, 3, states.data() + heads * d * d,
       reinterpret_cast<std::byte*>(windows.data() + 3 * 3 * inner)}};
  Owned<float> ours(rows, inner), theirs(rows, inner);
  delta_rule<float>(shape, in.const_rows(), packed, ours.view(), team);
  reference_kernels().kda_recurrent({.qkv = in.qkv.view(),
                                     .decay = in.decay.view(),
                                     .beta = in.beta.view(),
                                     .heads = heads,
                                     .head_dim = d,
                                     .sequences = sequences.data(),
                                     .sequence_count = 2,
                                     .o = theirs.view()},
                                    team);
  EXPECT_LE(relative_error(ours.values, theirs.values), 1e-5);

  const auto w = random.vector<float>(4 * 3 * inner, 0.5);
  Owned<float> conv(rows, 3 * inner), ref_conv(rows, 3 * inner);
  short_conv<float>(in.qkv.view(), w.data(), 4, packed, conv.view());
  reference_kernels().short_conv({.x = in.qkv.view(),
                                  .weight = w.data(),
                                  .width = 4,
                                  .window_dtype = DType::kF32,
                                  .sequences = sequences.data(),
                                  .sequence_count = 2,
                                  .y = ref_conv.view()},
                                 team);
  EXPECT_LE(relative_error(conv.values, ref_conv.values), 1e-5);

  const auto dt = random.vector<float>(inner, 0.5);
  const std::vector<float> rate = {1.3f, 0.7f};
  for (const std::optional<float> bound : {std::optional<float>(-5.0f), std::optional<float>()}) {
    Owned<float> g = in.decay, beta = in.beta, ref_g = in.decay, ref_beta = in.beta;
    kda_gates<float>({dt.data(), rate.data(), bound, heads}, in.decay.view(), in.beta.view(),
                     g.view(), beta.view());
    reference_kernels().kda_gates({.decay = ref_g.view(),
                                   .beta = ref_beta.view(),
                                   .dt_bias = dt.data(),
                                   .head_rate = rate.data(),
                                   .lower_bound = bound,
                                   .heads = heads},
                                  team);
    EXPECT_LE(relative_error(g.values, ref_g.values), 1e-5);
    EXPECT_LE(relative_error(beta.values, ref_beta.values), 1e-5);
  }
}

}  // namespace
}  // namespace tandem::train
