#include <algorithm>
#include <cmath>

#include "kernels/kernel_testing.h"
#include "kernels/ref/delta_rule.h"

namespace tandem::testing {
namespace {

using KdaOperator = void (*)(const KdaArgs&, ThreadTeam&) noexcept;

struct KdaInputs {
  double scale = 1;          // of q, k and v before normalisation
  double largest_decay = 5;  // |g| a token, drawn over four decades
  double correlation = 0;    // 1: every key is the same
  double least_beta = 0;
};

// Requests at the door of the recurrence, each with a state to start from.
struct Requests {
  std::int64_t heads, d;
  std::vector<Rows> qkv, decay, beta;
  std::vector<GuardedVector<float>>
      states;  // [heads, d, d] behind one element that breaks the alignment

  Requests(Random& random, std::int64_t heads_, std::int64_t d_,
           const std::vector<std::int64_t>& lengths, const KdaInputs& in = {})
      : heads(heads_), d(d_) {
    for (std::int64_t length : lengths) {
      qkv.push_back(Rows::random(random, length, 3 * heads * d, in.scale));
      beta.emplace_back(length, heads);
      decay.emplace_back(length, heads * d);
      states.push_back(random.vector(1 + heads * d * d));
      const GuardedVector<float> key = random.vector(heads * d, in.scale);
      for (std::int64_t t = 0; t < length; ++t) {
        for (std::int64_t i = 0; i < heads * d; ++i) {
          float& k = qkv.back().at(t, heads * d + i);
          k = static_cast<float>(in.correlation * key[i] + (1 - in.correlation) * k);
          decay.back().at(t, i) =
              static_cast<float>(-in.largest_decay * std::pow(10.0, random.uniform(-4, 0)));
        }
        for (std::int64_t h = 0; h < heads; ++h)
          beta.back().at(t, h) = random.uniform(in.least_beta, 1);
      }
    }
  }

  std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> out;
    for (const Rows& rows : qkv) out.push_back(rows.rows());
    return out;
  }
  Piece whole(std::int64_t request) const { return {request, 0, qkv[request].rows()}; }

  // One step over `pieces`; returns its output rows in the order of the pieces.
  Rows step(KdaOperator kda, const std::vector<Piece>& pieces,
            std::vector<GuardedVector<float>>& state, ThreadTeam& team) const {
    std::int64_t rows = 0;
    std::vector<KdaSequence> sequences;
    for (const Piece& piece : pieces) {
      sequences.push_back(
          {.first_row = rows, .rows = piece.rows, .state = state[piece.request].data() + 1});
      rows += piece.rows;
    }
    const auto gather = [&](const std::vector<Rows>& source) {
      Rows out(rows, source[0].columns());
      std::int64_t row = 0;
      for (const Piece& piece : pieces) {
        for (std::int64_t t = piece.first; t < piece.first + piece.rows; ++t, ++row) {
          const float* from = source[piece.request].view().row(t);
          std::copy(from, from + out.columns(), &out.at(row, 0));
        }
      }
      return out;
    };
    const Rows x = gather(qkv), g = gather(decay), b = gather(beta);
    Rows o(rows, heads * d);
    kda({x, g, b, heads, d, sequences.data(), static_cast<std::int64_t>(sequences.size()), o},
        team);
    return o;
  }
};

// What the recurrence gives in double for one request: [length, heads*d] and [heads, d, d].
struct Expected {
  std::vector<double> o, state;
  double magnitude = 0;  // the longest column of any state: what a read is made of

  Expected(const Requests& in, std::int64_t request) {
    const std::int64_t d = in.d, length = in.qkv[request].rows();
    o.resize(static_cast<std::size_t>(length * in.heads * d));
    for (std::int64_t h = 0; h < in.heads; ++h) {
      const float* start = in.states[request].data() + 1 + h * d * d;
      std::vector<double> s(start, start + d * d), read(static_cast<std::size_t>(d));
      note_columns(s, d);
      for (std::int64_t t = 0; t < length; ++t) {
        const auto q = unit(in.qkv[request], t, h * d, d, 1 / std::sqrt(static_cast<double>(d)));
        const auto k = unit(in.qkv[request], t, (in.heads + h) * d, d, 1);
        std::vector<double> v, g;
        for (std::int64_t i = 0; i < d; ++i) {
          v.push_back(in.qkv[request].at(t, (2 * in.heads + h) * d + i));
          g.push_back(in.decay[request].at(t, h * d + i));
        }
        const double b = in.beta[request].at(t, h);
        reference::delta_rule_recurrent({1, d, q.data(), k.data(), v.data(), g.data(), &b},
                                        s.data(), read.data());
        note_columns(s, d);
        for (std::int64_t i = 0; i < d; ++i) o[(t * in.heads + h) * d + i] = read[i];
      }
      state.insert(state.end(), s.begin(), s.end());
    }
  }

  static std::vector<double> unit(const Rows& x, std::int64_t t, std::int64_t first, std::int64_t d,
                                  double scale) {
    std::vector<double> out;
    double square = 0;
    for (std::int64_t i = 0; i < d; ++i) {
      out.push_back(x.at(t, first + i));
      square += out[i] * out[i];
    }
    for (double& value : out) value *= scale / std::sqrt(square + 1e-6);
    return out;
  }

  void note_columns(const std::vector<double>& s, std::int64_t d) {
    for (std::int64_t j = 0; j < d; ++j) {
      double square = 0;
      for (std::int64_t i = 0; i < d; ++i) square += s[i * d + j] * s[i * d + j];
      magnitude = std::max(magnitude, std::sqrt(square));
    }
  }
};

// Runs each request whole and compares outputs and states with Expected. `error` is relative to the
// magnitude of a read.
void expect_close(KdaOperator kda, const Requests& in, double error, ThreadTeam& team) {
  std::vector<GuardedVector<float>> states = in.states;
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(in.qkv.size()); ++r) {
    const Rows o = in.step(kda, {in.whole(r)}, states, team);
    ASSERT_TRUE(o.written_exactly());
    const Expected want(in, r);
    const double bound = error * want.magnitude;
    ASSERT_TRUE(near(
        o, [&](auto t, auto i) { return want.o[t * o.columns() + i]; },
        [&](auto, auto) { return bound; }));
    for (std::size_t i = 0; i < want.state.size(); ++i) {
      ASSERT_LE(std::fabs(states[r][i + 1] - want.state[i]), bound) << "state element " << i;
    }
    ASSERT_EQ(states[r][0], in.states[r][0]);
  }
}

using KdaTest = KernelTest;
TANDEM_FOR_ALL_KERNELS(KdaTest);

// A token's update is a contraction, so errors of its few roundings add without growing; their
// signs are random, so they add as the square root of the number of tokens.
double recurrent_error(std::int64_t tokens) {
  return 8 * kUnit * (4 + std::sqrt(static_cast<double>(tokens)));
}

// A chunk rounds more often, and differences of summed decays round relative to the sums: 64 tokens
// is the longest chunk in use.
double chunked_error(std::int64_t tokens, double largest_decay) {
  return 4 * recurrent_error(tokens) + kUnit * 64 * largest_decay;
}

TEST_P(KdaTest, the_recurrence_agrees_with_double) {
  for (std::int64_t heads : {1, 3}) {
    for (std::int64_t d : {1, 3, 8, 20, 32, 128}) {
      for (double scale : {1.0, 3e-4}) {  // the second makes the norm's epsilon count
        SCOPED_TRACE(fmt::format("{} heads of {}, scale {}", heads, d, scale));
        const Requests in(random_, heads, d, {1, 19}, {.scale = scale});
        expect_close(kernels().kda_recurrent, in, recurrent_error(19), team_);
      }
    }
  }
}

TEST_P(KdaTest, chunks_agree_with_double) {
  for (std::int64_t heads : {1, 3}) {
    for (std::int64_t d : {1, 3, 8, 20, 32, 128}) {
      for (double scale : {1.0, 3e-4}) {
        SCOPED_TRACE(fmt::format("{} heads of {}, scale {}", heads, d, scale));
        const Requests in(random_, heads, d, {1, 2, 15, 16, 17, 33, 70}, {.scale = scale});
        expect_close(kernels().kda_chunked, in, chunked_error(70, 5), team_);
      }
    }
  }
}

// Keys that all agree, beta close to 1, almost no decay: where inverting by products breaks down.
TEST_P(KdaTest, correlated_keys_stay_accurate) {
  for (double correlation : {0.99, 1.0}) {
    const KdaInputs hard = {.largest_decay = 1e-3, .correlation = correlation, .least_beta = 0.999};
    const Requests in(random_, 2, 32, {100}, hard);
    expect_close(kernels().kda_recurrent, in, recurrent_error(100), team_);
    expect_close(kernels().kda_chunked, in, chunked_error(100, 0), team_);
  }
}

// The unbounded gate of real weights reaches 2661 a token: 170,000 over a chunk of 64.
TEST_P(KdaTest, huge_decays_stay_finite_and_accurate) {
  const Requests in(random_, 2, 32, {70}, {.largest_decay = 2661});
  expect_close(kernels().kda_recurrent, in, recurrent_error(70), team_);
  expect_close(kernels().kda_chunked, in, chunked_error(70, 2661), team_);
}

TEST_P(KdaTest, queries_keys_and_values_of_zero_give_zero) {
  Requests in(random_, 1, 16, {20});
  for (std::int64_t t = 0; t < 20; ++t) {
    for (std::int64_t i = 0; i < 48; ++i) in.qkv[0].at(t, i) = 0;
  }
  for (KdaOperator kda : {kernels().kda_recurrent, kernels().kda_chunked}) {
    std::vector<GuardedVector<float>> states = in.states;
    const Rows o = in.step(kda, {in.whole(0)}, states, team_);
    EXPECT_TRUE(near(
        o, [](auto, auto) { return 0.0; }, [](auto, auto) { return 0.0; }));
  }
}

// Serves the requests by `steps` and compares every output row and the last states with `whole`.
void expect_same_bits(const Requests& in, KdaOperator kda, const std::vector<Rows>& whole,
                      const std::vector<GuardedVector<float>>& last,
                      const std::vector<std::vector<Piece>>& steps, ThreadTeam& team) {
  std::vector<GuardedVector<float>> states = in.states;
  for (const std::vector<Piece>& pieces : steps) {
    wake(team);
    const Rows o = in.step(kda, pieces, states, team);
    ASSERT_TRUE(o.written_exactly());
    std::int64_t row = 0;
    for (const Piece& piece : pieces) {
      for (std::int64_t t = piece.first; t < piece.first + piece.rows; ++t, ++row) {
        ASSERT_TRUE(same_bits(o.view().row(row), whole[piece.request].view().row(t), o.columns()))
            << "request " << piece.request << " token " << t << ", " << team.threads()
            << " threads";
      }
    }
  }
  ASSERT_EQ(states, last);
}

TEST_P(KdaTest, cuts_and_companions_change_no_bit_of_the_recurrence) {
  ThreadTeam one(1);
  for (std::int64_t d : {7, 16, 128}) {
    const Requests in(random_, 3, d, {1, 2, 12, 25});
    std::vector<Rows> whole;
    std::vector<GuardedVector<float>> last = in.states;
    for (std::int64_t r = 0; r < 4; ++r) {
      whole.push_back(in.step(kernels().kda_recurrent, {in.whole(r)}, last, one));
    }
    for (ThreadTeam* team : {&one, &team_}) {
      const auto steps = random_steps(random_, in.lengths());
      expect_same_bits(in, kernels().kda_recurrent, whole, last, steps, *team);
    }
  }
}

TEST_P(KdaTest, companions_change_no_bit_of_the_chunks) {
  ThreadTeam one(1);
  for (std::int64_t d : {7, 16, 128}) {
    const Requests in(random_, 3, d, {1, 16, 25, 40});
    std::vector<Rows> whole;
    std::vector<GuardedVector<float>> last = in.states;
    for (std::int64_t r = 0; r < 4; ++r) {
      whole.push_back(in.step(kernels().kda_chunked, {in.whole(r)}, last, one));
    }
    for (ThreadTeam* team : {&one, &team_}) {
      const std::vector<Piece> together = {in.whole(2), in.whole(0), in.whole(3), in.whole(1)};
      expect_same_bits(in, kernels().kda_chunked, whole, last, {together}, *team);
    }
  }
}

}  // namespace
}  // namespace tandem::testing
