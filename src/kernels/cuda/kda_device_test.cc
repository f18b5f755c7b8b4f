#include <cmath>

#include "kernels/cuda/device_testing.h"
#include "kernels/cuda/kda.h"
#include "kernels/ref/delta_rule.h"
#include "kernels/ref/operators.h"

namespace tandem::testing {
namespace {

constexpr std::int64_t kDim = 128;
constexpr float kEps = 1e-5f;

// Sums of 128 products in fp32 over columns of length <= 16: gamma_128 * 16, doubled for the gates.
constexpr double kStateBound = 2 * 128 * 0x1p-24 * 16;

struct KdaDevice : DeviceKernelTest {
  struct Weights {
    std::vector<float> conv, bias, rate, norm;
  };
  struct Request {
    std::vector<float> state;
    std::vector<BF16> window;
  };
  struct Token {
    std::vector<BF16> qkv, gate, decay, beta;
  };

  Weights weights(std::int64_t heads) {
    Weights w{normals(random_, 12 * heads * kDim, 0.5), normals(random_, heads * kDim),
              normals(random_, heads, 0.3, 1), normals(random_, kDim, 0.2, 1)};
    for (float& rate : w.rate) rate = std::fabs(rate);
    return w;
  }
  Request request(std::int64_t heads) {
    return {normals(random_, heads * kDim * kDim), bf16_normals(random_, 9 * heads * kDim)};
  }
  Token token(std::int64_t heads) {
    return {bf16_normals(random_, 3 * heads * kDim), bf16_normals(random_, heads * kDim),
            bf16_normals(random_, heads * kDim), bf16_normals(random_, heads)};
  }

  // One step over `tokens`; overwrites the requests. Rows of qkv and gate stand side by side.
  std::vector<BF16> step(const Weights& w, std::vector<Request>& requests,
                         const std::vector<Token>& tokens, std::int64_t heads, float lower_bound) {
    const auto batch = static_cast<std::int64_t>(tokens.size());
    const std::int64_t inner = heads * kDim;
    std::vector<BF16> rows, decay, beta;
    for (const Token& token : tokens) {
      rows.insert(rows.end(), token.qkv.begin(), token.qkv.end());
      rows.insert(rows.end(), token.gate.begin(), token.gate.end());
      decay.insert(decay.end(), token.decay.begin(), token.decay.end());
      beta.insert(beta.end(), token.beta.begin(), token.beta.end());
    }
    std::vector<DeviceArray<float>> states;
    std::vector<DeviceArray<BF16>> windows;
    std::vector<float*> state_at;
    std::vector<BF16*> window_at;
    for (const Request& request : requests) {
      states.emplace_back(stream_, request.state);
      windows.emplace_back(stream_, request.window);
      state_at.push_back(states.back().data());
      window_at.push_back(windows.back().data());
    }
    const DeviceArray<BF16> d_rows(stream_, rows), d_decay(stream_, decay), d_beta(stream_, beta);
    const DeviceArray<float> conv(stream_, w.conv), bias(stream_, w.bias), rate(stream_, w.rate),
        norm(stream_, w.norm);
    const DeviceArray<float*> d_states(stream_, state_at);
    const DeviceArray<BF16*> d_windows(stream_, window_at);
    const DeviceArray<BF16> out(stream_, static_cast<std::size_t>(batch * inner));
    const auto done = cuda::kda_decode({.batch = batch,
                                        .heads = heads,
                                        .qkv = d_rows.data(),
                                        .qkv_stride = 4 * inner,
                                        .gate = d_rows.data() + 3 * inner,
                                        .gate_stride = 4 * inner,
                                        .decay = d_decay.data(),
                                        .decay_stride = inner,
                                        .beta = d_beta.data(),
                                        .beta_stride = heads,
                                        .conv_weight = conv.data(),
                                        .dt_bias = bias.data(),
                                        .head_rate = rate.data(),
                                        .norm_weight = norm.data(),
                                        .lower_bound = lower_bound,
                                        .eps = kEps,
                                        .states = d_states.data(),
                                        .windows = d_windows.data(),
                                        .out = out.data()},
                                       stream_.get());
    EXPECT_TRUE(done) << done.error().message;
    for (std::size_t r = 0; r < requests.size(); ++r) {
      requests[r].state = states[r].host();
      requests[r].window = windows[r].host();
    }
    return out.host();
  }

  // The reference operators one after another, for one request.
  static std::vector<float> expected(const Weights& w, Request& request, const Token& token,
                                     std::int64_t heads, float lower_bound) {
    ThreadTeam team(1);
    const std::int64_t inner = heads * kDim;
    std::vector<float> x = to_float(token.qkv), gate = to_float(token.gate);
    std::vector<float> decay = to_float(token.decay), beta = to_float(token.beta);
    std::vector<float> mixed(x.size()), out(static_cast<std::size_t>(inner));
    const auto row = [](std::vector<float>& values) {
      const auto size = static_cast<std::int64_t>(values.size());
      return Activations{values.data(), 1, size, size};
    };
    const KdaSequence sequence{0, 1, request.state.data(),
                               reinterpret_cast<std::byte*>(request.window.data())};
    reference::short_conv({row(x), w.conv.data(), 4, DType::kBF16, &sequence, 1, row(mixed)}, team);
    KdaGatesArgs gates{row(decay), row(beta), w.bias.data(), w.rate.data(), {}, heads};
    if (lower_bound < 0) gates.lower_bound = lower_bound;
    reference::kda_gates(gates, team);
    reference::kda_recurrent(
        {row(mixed), row(decay), row(beta), heads, kDim, &sequence, 1, row(out)}, team);
    reference::gated_rms_norm({row(out), row(gate), w.norm.data(), heads, kEps, row(out)}, team);
    return out;
  }

  void compare(std::int64_t heads, std::int64_t batch, int steps, float lower_bound) {
    const Weights w = weights(heads);
    std::vector<Request> actual;
    for (std::int64_t r = 0; r < batch; ++r) actual.push_back(request(heads));
    std::vector<Request> want = actual;
    for (int s = 0; s < steps; ++s) {
      std::vector<Token> tokens;
      for (std::int64_t r = 0; r < batch; ++r) tokens.push_back(token(heads));
      const std::vector<float> out = to_float(step(w, actual, tokens, heads, lower_bound));
      for (std::int64_t r = 0; r < batch; ++r) {
        const std::vector<float> y = expected(w, want[r], tokens[r], heads, lower_bound);
        for (std::size_t i = 0; i < y.size(); ++i) {
          // One rounding to bf16, and the state's error through a norm that scales it by about 11.
          const double bound = std::fabs(y[i]) * 0x1p-8 + 16 * kStateBound;
          ASSERT_LE(std::fabs(out[r * y.size() + i] - y[i]), bound)
              << "request " << r << " at " << i;
        }
        for (std::size_t i = 0; i < want[r].state.size(); ++i) {
          ASSERT_LE(std::fabs(actual[r].state[i] - want[r].state[i]), (s + 1) * kStateBound)
              << "request " << r << " state " << i;
        }
        ASSERT_TRUE(same_bits(actual[r].window, want[r].window)) << "request " << r;
      }
    }
  }
};

TEST_F(KdaDevice, decode_agrees_with_the_reference_bounded_gate) { compare(3, 5, 3, -5); }
TEST_F(KdaDevice, decode_agrees_with_the_reference_unbounded_gate) { compare(3, 1, 2, 0); }
// More heads than the ring of every multiprocessor holds at once.
TEST_F(KdaDevice, decode_agrees_with_the_reference_over_many_turns) { compare(96, 7, 1, -5); }

TEST_F(KdaDevice, a_request_has_the_same_bits_alone_and_in_a_batch) {
  const std::int64_t heads = 33;
  const Weights w = weights(heads);
  std::vector<Request> together;
  std::vector<Token> tokens;
  for (int r = 0; r < 17; ++r) together.push_back(request(heads));
  for (int r = 0; r < 17; ++r) tokens.push_back(token(heads));
  std::vector<Request> alone = {together[13]};
  const std::vector<BF16> all = step(w, together, tokens, heads, -5);
  const std::vector<BF16> one = step(w, alone, {tokens[13]}, heads, -5);
  const auto row = all.begin() + 13 * heads * kDim;
  EXPECT_TRUE(same_bits(one, std::vector<BF16>(row, row + heads * kDim)));
  EXPECT_TRUE(same_bits(alone[0].state, together[13].state));
}

TEST_F(KdaDevice, fold_applies_accepted_records_only) {
  const std::int64_t layers = 2, heads = 41, window = 8;
  const std::vector<std::int32_t> counts = {8, 0, 3, 1, 5};
  std::vector<std::vector<float>> start;
  std::vector<std::vector<cuda::KdaRecord>> records;
  std::vector<DeviceArray<float>> states;
  std::vector<DeviceArray<cuda::KdaRecord>> d_records;
  std::vector<float*> state_at;
  std::vector<const cuda::KdaRecord*> records_at;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    start.push_back(normals(random_, layers * heads * kDim * kDim));
    std::vector<cuda::KdaRecord> all(static_cast<std::size_t>(layers * heads * window));
    for (cuda::KdaRecord& record : all) {
      const std::vector<float> k = normals(random_, kDim, 1 / std::sqrt(128.0));
      const std::vector<float> v = normals(random_, kDim), g = normals(random_, kDim);
      for (std::int64_t i = 0; i < kDim; ++i) {
        record.key[i] = tandem::to_bf16(k[i]);
        record.value[i] = tandem::to_bf16(v[i]);
        record.log_decay[i] = -0.1f * std::fabs(g[i]);
      }
      record.beta = 0.5f + 0.25f * std::tanh(v[0]);
    }
    records.push_back(std::move(all));
    states.emplace_back(stream_, start[r]);
    d_records.emplace_back(stream_, records[r]);
    state_at.push_back(states[r].data());
    records_at.push_back(d_records[r].data());
  }
  const DeviceArray<std::int32_t> d_counts(stream_, counts);
  const DeviceArray<const cuda::KdaRecord*> d_records_at(stream_, records_at);
  const DeviceArray<float*> d_state_at(stream_, state_at);
  const auto done = cuda::kda_fold({static_cast<std::int64_t>(counts.size()), layers, heads, window,
                                    d_counts.data(), d_records_at.data(), d_state_at.data()},
                                   stream_.get());
  ASSERT_TRUE(done) << done.error().message;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const std::vector<float> actual = states[r].host();
    if (counts[r] == 0) {
      EXPECT_TRUE(same_bits(actual, start[r]));
    }
    for (std::int64_t head = 0; head < layers * heads; ++head) {
      std::vector<double> state(start[r].begin() + head * kDim * kDim,
                                start[r].begin() + (head + 1) * kDim * kDim);
      for (std::int64_t t = 0; t < counts[r]; ++t) {
        const cuda::KdaRecord& record = records[r][head * window + t];
        std::vector<double> k, v, g, o(kDim);
        for (std::int64_t i = 0; i < kDim; ++i) {
          k.push_back(tandem::to_float(record.key[i]));
          v.push_back(tandem::to_float(record.value[i]));
          g.push_back(record.log_decay[i]);
        }
        const double beta = record.beta;
        reference::delta_rule_recurrent({1, kDim, k.data(), k.data(), v.data(), g.data(), &beta},
                                        state.data(), o.data());
      }
      for (std::int64_t i = 0; i < kDim * kDim; ++i) {
        ASSERT_LE(std::fabs(actual[head * kDim * kDim + i] - state[i]),
                  (counts[r] + 1) * kStateBound)
            << "request " << r << " head " << head << " element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::testing
