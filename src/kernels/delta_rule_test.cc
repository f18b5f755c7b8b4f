// The delta rule itself, in double: what the recurrence stores, and that the chunkwise formulas
// compute it.
#include "kernels/ref/delta_rule.h"

#include <algorithm>
#include <cmath>

#include "kernels/kernel_testing.h"

namespace tandem::reference {
namespace {

using testing::Random;

std::vector<double> unit_vector(Random& random, std::int64_t d) {
  std::vector<double> x(static_cast<std::size_t>(d));
  double square = 0;
  for (double& value : x) square += std::pow(value = random.normal(), 2);
  for (double& value : x) value /= std::sqrt(square);
  return x;
}

void append(std::vector<double>& all, const std::vector<double>& row) {
  all.insert(all.end(), row.begin(), row.end());
}

// Tokens of one head, and a state to start from.
struct Head {
  std::int64_t d;
  std::vector<double> q, k, v, g, beta, state;

  explicit Head(std::int64_t dim) : d(dim), state(static_cast<std::size_t>(dim * dim)) {}

  DeltaRuleTokens tokens(std::int64_t first, std::int64_t count) const {
    return {count, d, &q[first * d], &k[first * d], &v[first * d], &g[first * d], &beta[first]};
  }
  std::int64_t size() const { return static_cast<std::int64_t>(beta.size()); }
};

enum class Gate { kBounded, kUnbounded };

// correlation 0: independent keys; 1: one key for all.
Head random_head(Random& random, std::int64_t d, std::int64_t tokens, Gate gate, double correlation,
                 double min_beta) {
  Head head(d);
  for (double& s : head.state) s = random.normal();
  const std::vector<double> common = unit_vector(random, d);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<double> k = unit_vector(random, d), g, v;
    double square = 0;
    for (std::int64_t i = 0; i < d; ++i) {
      k[i] = correlation * common[i] + (1 - correlation) * k[i];
      square += k[i] * k[i];
      v.push_back(random.normal());
      const double bounded = -5.0 / (1 + std::exp(-random.normal(3)));
      // Most channels forget slowly, some at once: real weights reach 2661 a token.
      const double unbounded = -std::pow(10.0, random.uniform(-4, 3.425));
      g.push_back(gate == Gate::kBounded ? bounded : unbounded);
    }
    for (double& value : k) value /= std::sqrt(square);
    append(head.q, unit_vector(random, d));
    append(head.k, k);
    append(head.v, v);
    append(head.g, g);
    head.beta.push_back(random.uniform(min_beta, 1));
  }
  return head;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    largest = std::max(largest, std::fabs(a[i] - b[i]));
  }
  return largest;
}

// Runs `head` both ways, the chunkwise one cut at random places, and compares outputs and states.
void expect_chunks_equal_recurrence(Random& random, const Head& head) {
  std::vector<double> recurrent_state = head.state, chunked_state = head.state;
  std::vector<double> recurrent_o(head.q.size()), chunked_o(head.q.size());
  delta_rule_recurrent(head.tokens(0, head.size()), recurrent_state.data(), recurrent_o.data());
  for (std::int64_t first = 0; first < head.size();) {
    const std::int64_t count = std::min(random.integer(1, kDeltaRuleChunk), head.size() - first);
    delta_rule_chunk(head.tokens(first, count), chunked_state.data(), &chunked_o[first * head.d]);
    first += count;
  }
  EXPECT_LE(largest_difference(recurrent_o, chunked_o), 1e-9);
  EXPECT_LE(largest_difference(recurrent_state, chunked_state), 1e-9);
}

class DeltaRuleTest : public ::testing::Test {
  std::uint64_t seed_ = testing::test_seed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, fmt::format("TANDEM_TEST_SEED={}", seed_)};

 protected:
  Random random_{seed_};
};

TEST_F(DeltaRuleTest, orthogonal_keys_store_and_return_their_values) {
  constexpr std::int64_t kDim = 4;
  Head head(kDim);
  for (std::int64_t t = 0; t < kDim; ++t) {
    std::vector<double> key(kDim, 0.0);
    key[t] = 1;
    append(head.k, key);
    append(head.q, key);
    append(head.v, {random_.normal(), random_.normal(), random_.normal(), random_.normal()});
    append(head.g, std::vector<double>(kDim, 0.0));
    head.beta.push_back(1);
  }
  std::vector<double> o(head.v.size());
  delta_rule_recurrent(head.tokens(0, kDim), head.state.data(), o.data());
  EXPECT_EQ(o, head.v);
  EXPECT_EQ(head.state, head.v);  // key-major: row i belongs to key i
}

// Decay comes first and acts on the key axis; the write replaces what the decayed state predicts;
// the read comes last. Worked by hand for one key.
TEST_F(DeltaRuleTest, one_token_decays_then_corrects_then_reads) {
  Head head(2);
  head.state = {8, 4, 1, 1};
  head.q = {0.5, 0.25};
  head.k = {1, 0};
  head.v = {3, 3};
  head.g = {std::log(0.5), std::log(0.25)};
  head.beta = {0.5};
  std::vector<double> o(2);
  delta_rule_recurrent(head.tokens(0, 1), head.state.data(), o.data());
  // Decayed: {4, 2}, {.25, .25}; error 3 - {4, 2}; half of it is written to row 0.
  const std::vector<double> state = {3.5, 2.5, 0.25, 0.25};
  EXPECT_LE(largest_difference(head.state, state), 1e-15);
  EXPECT_LE(largest_difference(o, {0.5 * 3.5 + 0.25 * 0.25, 0.5 * 2.5 + 0.25 * 0.25}), 1e-15);
}

TEST_F(DeltaRuleTest, chunks_equal_the_recurrence_under_the_bounded_gate) {
  for (std::int64_t d : {1, 3, 16, 32}) {
    expect_chunks_equal_recurrence(random_, random_head(random_, d, 70, Gate::kBounded, 0, 0));
  }
}

TEST_F(DeltaRuleTest, chunks_equal_the_recurrence_under_the_unbounded_gate) {
  for (std::int64_t d : {1, 3, 16, 32}) {
    expect_chunks_equal_recurrence(random_, random_head(random_, d, 70, Gate::kUnbounded, 0, 0));
  }
}

// The triangular system is worst conditioned when all keys agree, all betas are 1 and nothing
// decays.
TEST_F(DeltaRuleTest, chunks_equal_the_recurrence_for_correlated_keys) {
  for (double correlation : {0.9, 0.999, 1.0}) {
    Head head = random_head(random_, 16, 64, Gate::kBounded, correlation, 0.999);
    for (double& g : head.g) g *= 1e-4;
    expect_chunks_equal_recurrence(random_, head);
  }
}

TEST_F(DeltaRuleTest, a_chunk_of_one_token_is_a_step) {
  const Head head = random_head(random_, 8, 1, Gate::kBounded, 0, 0);
  expect_chunks_equal_recurrence(random_, head);
}

}  // namespace
}  // namespace tandem::reference
