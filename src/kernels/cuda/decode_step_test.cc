#include "kernels/cuda/decode_step.h"

#include <cmath>
#include <limits>

#include "kernels/cuda/device_testing.h"
#include "kernels/ref/operators.h"

namespace tandem::testing {
namespace {

using DecodeStep = DeviceKernelTest;

TEST_F(DecodeStep, skinny_linear_agrees_with_the_reference_and_rows_do_not_depend_on_their_number) {
  for (const std::int64_t inputs : {256, 1280, 7168}) {
    const std::int64_t outputs = 4261;  // odd, more than one pass of the grid for 7168 inputs
    const std::vector<BF16> x = bf16_normals(random_, 8 * inputs);
    const std::vector<BF16> w = bf16_normals(random_, outputs * inputs);
    const DeviceArray<BF16> d_x(stream_, x), d_w(stream_, w);
    const std::vector<float> wide_x = to_float(x), wide_w = to_float(w);
    std::vector<float> eight;
    for (std::int64_t rows = 8; rows >= 1; --rows) {
      const DeviceArray<float> y(stream_, static_cast<std::size_t>(rows * outputs));
      ASSERT_TRUE(cuda::skinny_linear({rows, inputs, outputs, d_x.data(), d_w.data(), y.data()},
                                      stream_.get()));
      const std::vector<float> actual = y.host();
      if (rows == 8) eight = actual;
      ASSERT_EQ(std::memcmp(actual.data(), eight.data(), actual.size() * sizeof(float)), 0)
          << rows << " rows, " << inputs << " inputs";
    }
    for (std::int64_t r = 0; r < 8; ++r) {
      for (std::int64_t o = 0; o < outputs; o += o < 4000 ? 61 : 1) {
        double want = 0, magnitude = 0;
        for (std::int64_t i = 0; i < inputs; ++i) {
          const double product = double{wide_w[o * inputs + i]} * wide_x[r * inputs + i];
          want += product;
          magnitude += std::fabs(product);
        }
        // A lane adds inputs/32 products, then five steps of the butterfly: gamma * sum |products|.
        const double bound = (static_cast<double>(inputs) / 32 + 6) * 0x1p-24 * magnitude;
        ASSERT_LE(std::fabs(eight[r * outputs + o] - want), bound)
            << "row " << r << " output " << o;
      }
    }
  }
}

struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

Routed route_on_device(const CudaStream& stream, const std::vector<float>& logits,
                       const std::vector<float>& bias, std::int64_t top_k) {
  const auto experts = static_cast<std::int64_t>(bias.size());
  const std::int64_t rows = static_cast<std::int64_t>(logits.size()) / experts;
  const DeviceArray<float> d_logits(stream, logits), d_bias(stream, bias);
  const DeviceArray<std::int32_t> ids(stream, static_cast<std::size_t>(rows * top_k));
  const DeviceArray<float> weights(stream, static_cast<std::size_t>(rows * top_k));
  EXPECT_TRUE(cuda::route(
      {rows, experts, top_k, d_logits.data(), d_bias.data(), 2.5f, ids.data(), weights.data()},
      stream.get()));
  return {ids.host(), weights.host()};
}

// Bias and logits on grids of 1/64 and 1/8: scores tie exactly or differ by more than fp32
// rounding.
TEST_F(DecodeStep, route_chooses_what_the_reference_chooses) {
  for (const auto& [experts, top_k] : {std::pair{896, 16}, {37, 5}, {1024, 32}, {1, 1}}) {
    std::vector<float> logits = normals(random_, 33 * experts),
                       bias = normals(random_, experts, 0.1);
    for (float& x : logits) x = std::round(x * 8) / 8;
    for (float& x : bias) x = std::round(x * 64) / 64;
    for (int e = 0; e < experts; ++e) logits[e] = 1;  // one row of ties
    const Routed actual = route_on_device(stream_, logits, bias, top_k);
    Routed want{std::vector<std::int32_t>(actual.ids.size()),
                std::vector<float>(actual.ids.size())};
    ThreadTeam team(1);
    reference::router({.logits = {logits.data(), 33, experts, experts},
                       .bias = bias.data(),
                       .top_k = top_k,
                       .scaling = 2.5f,
                       .ids = want.ids.data(),
                       .weights = want.weights.data()},
                      team);
    ASSERT_EQ(actual.ids, want.ids) << experts << " experts";
    for (std::size_t i = 0; i < want.weights.size(); ++i) {
      // A sigmoid (4 units), a sum of up to 32 and a division.
      ASSERT_NEAR(actual.weights[i], want.weights[i], 40 * 0x1p-24 * want.weights[i]);
    }
  }
}

TEST_F(DecodeStep, route_gives_distinct_experts_whatever_the_scores) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> logits(4 * 896, nan);
  for (int e = 0; e < 896; ++e) {
    logits[896 + e] = e % 2 == 0 ? inf : -inf;
    logits[2 * 896 + e] = e == 700 ? 0.5f : nan;
    logits[3 * 896 + e] = 0x1p-140f * static_cast<float>(e);
  }
  const Routed routed = route_on_device(stream_, logits, std::vector<float>(896, 0), 16);
  for (int row = 0; row < 4; ++row) {
    for (int i = 0; i < 16; ++i) {
      const int id = routed.ids[row * 16 + i];
      ASSERT_GE(id, i == 0 ? 0 : routed.ids[row * 16 + i - 1] + 1);
      ASSERT_LT(id, 896);
    }
  }
  EXPECT_EQ(routed.ids[16 + 15], 30);       // the first sixteen infinities
  EXPECT_EQ(routed.ids[2 * 16 + 15], 700);  // a number goes before every NaN
}

TEST_F(DecodeStep, mix_norm_agrees_with_the_reference) {
  for (const std::int64_t hidden : {72, 2304, 7168, 8192}) {
    for (int streams = 1; streams <= cuda::kMaxMixRows; ++streams) {
      const std::int64_t rows = 3;
      const std::vector<float> query = normals(random_, hidden, 1 / std::sqrt(hidden));
      const std::vector<float> norm = normals(random_, hidden, 0.2, 1);
      const DeviceArray<float> d_query(stream_, query), d_norm(stream_, norm);
      std::vector<std::vector<float>> stream(streams);
      std::vector<DeviceArray<BF16>> d_stream;
      std::vector<ConstActivations> views;
      const DeviceArray<BF16> y(stream_, static_cast<std::size_t>(rows * hidden));
      cuda::MixNormArgs args{.rows = rows,
                             .hidden = hidden,
                             .streams = streams,
                             .query = d_query.data(),
                             .mix_eps = 1e-6f,
                             .norm_weight = d_norm.data(),
                             .norm_eps = 1e-5f,
                             .y = y.data()};
      for (int j = 0; j < streams; ++j) {
        const std::vector<BF16> values = bf16_normals(random_, rows * hidden, 0.5 + j);
        stream[j] = to_float(values);
        d_stream.emplace_back(stream_, values);
        args.stream[j] = d_stream[j].data();
        views.push_back({stream[j].data(), rows, hidden, hidden});
      }
      ASSERT_TRUE(cuda::mix_norm(args, stream_.get()));
      const std::vector<float> actual = to_float(y.host());
      ThreadTeam team(1);
      std::vector<float> want(actual.size());
      const Activations want_view{want.data(), rows, hidden, hidden};
      reference::residual_mix(
          {views.data(), streams - 1, views[streams - 1], query.data(), 1e-6f, want_view}, team);
      reference::rms_norm({want_view, norm.data(), 1e-5f, want_view}, team);
      for (std::size_t i = 0; i < want.size(); ++i) {
        // One rounding to bf16; the mix and two norms in fp32 where terms may cancel.
        ASSERT_NEAR(actual[i], want[i], std::fabs(want[i]) * 0x1p-8 + 1e-4)
            << hidden << " wide, " << streams << " streams, element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
