#include "kernels/ref/delta_rule.h"

#include <cmath>
#include <vector>

#include "kernels/ref/plain.h"

namespace tandem::reference {
namespace {

void step(const DeltaRuleTokens& in, std::int64_t t, double* state, double* o) {
  const std::int64_t d = in.d;
  const double* q = in.q + t * d;
  const double* k = in.k + t * d;
  for (std::int64_t i = 0; i < d; ++i) {
    const double decay = std::exp(in.g[t * d + i]);
    for (std::int64_t j = 0; j < d; ++j) state[i * d + j] *= decay;
  }
  for (std::int64_t j = 0; j < d; ++j) {
    double predicted = 0;
    for (std::int64_t i = 0; i < d; ++i) predicted += state[i * d + j] * k[i];
    const double error = in.beta[t] * (in.v[t * d + j] - predicted);
    double read = 0;
    for (std::int64_t i = 0; i < d; ++i) {
      state[i * d + j] += k[i] * error;
      read += state[i * d + j] * q[i];
    }
    o[t * d + j] = read;
  }
}

// sum_c a[c] b[c] exp(later[c] - earlier[c]). The exponent is formed as a difference: it is <= 0,
// while exp(later) * exp(-earlier) overflows for fast decays.
double decayed_dot(const double* a, const double* b, const double* later, const double* earlier,
                   std::int64_t d) {
  double sum = 0;
  for (std::int64_t c = 0; c < d; ++c) sum += a[c] * b[c] * std::exp(later[c] - earlier[c]);
  return sum;
}

std::vector<double> inclusive_sum(const DeltaRuleTokens& in) {
  std::vector<double> total = zeros(in.tokens * in.d);
  for (std::int64_t i = 0; i < in.tokens * in.d; ++i) {
    total[i] = in.g[i] + (i < in.d ? 0.0 : total[i - in.d]);
  }
  return total;
}

// D = (I + A)^-1 diag(beta) (V - (exp(G) .* K) S0) by forward substitution, row by row:
//   D_i = beta_i (v_i - S0^T (exp(G_i) k_i) - sum_{j<i} <k_i, k_j>_G D_j)
std::vector<double> pseudo_values(const DeltaRuleTokens& in, const std::vector<double>& total,
                                  const double* state) {
  const std::int64_t d = in.d;
  std::vector<double> pseudo = zeros(in.tokens * d);
  for (std::int64_t i = 0; i < in.tokens; ++i) {
    const double* k = in.k + i * d;
    const double* g = &total[i * d];
    double* row = &pseudo[i * d];
    for (std::int64_t x = 0; x < d; ++x) row[x] = in.v[i * d + x];
    for (std::int64_t c = 0; c < d; ++c) {
      const double key = std::exp(g[c]) * k[c];
      for (std::int64_t x = 0; x < d; ++x) row[x] -= key * state[c * d + x];
    }
    for (std::int64_t j = 0; j < i; ++j) {
      const double overlap = decayed_dot(k, in.k + j * d, g, &total[j * d], d);
      for (std::int64_t x = 0; x < d; ++x) row[x] -= overlap * pseudo[j * d + x];
    }
    for (std::int64_t x = 0; x < d; ++x) row[x] *= in.beta[i];
  }
  return pseudo;
}

// O = (exp(G) .* Q) S0 + P D, where P_ij = <q_i, k_j>_G for j <= i.
void chunk_outputs(const DeltaRuleTokens& in, const std::vector<double>& total,
                   const std::vector<double>& pseudo, const double* state, double* o) {
  const std::int64_t d = in.d;
  for (std::int64_t i = 0; i < in.tokens; ++i) {
    const double* q = in.q + i * d;
    const double* g = &total[i * d];
    double* row = o + i * d;
    for (std::int64_t x = 0; x < d; ++x) row[x] = 0;
    for (std::int64_t c = 0; c < d; ++c) {
      const double query = std::exp(g[c]) * q[c];
      for (std::int64_t x = 0; x < d; ++x) row[x] += query * state[c * d + x];
    }
    for (std::int64_t j = 0; j <= i; ++j) {
      const double overlap = decayed_dot(q, in.k + j * d, g, &total[j * d], d);
      for (std::int64_t x = 0; x < d; ++x) row[x] += overlap * pseudo[j * d + x];
    }
  }
}

// S = diag(exp(G_C)) S0 + (exp(G_C - G) .* K)^T D
void chunk_state(const DeltaRuleTokens& in, const std::vector<double>& total,
                 const std::vector<double>& pseudo, double* state) {
  const std::int64_t d = in.d;
  const double* last = &total[(in.tokens - 1) * d];
  for (std::int64_t c = 0; c < d; ++c) {
    double* row = state + c * d;
    for (std::int64_t x = 0; x < d; ++x) row[x] *= std::exp(last[c]);
    for (std::int64_t i = 0; i < in.tokens; ++i) {
      const double key = std::exp(last[c] - total[i * d + c]) * in.k[i * d + c];
      for (std::int64_t x = 0; x < d; ++x) row[x] += key * pseudo[i * d + x];
    }
  }
}

}  // namespace

void delta_rule_recurrent(const DeltaRuleTokens& in, double* state, double* o) {
  for (std::int64_t t = 0; t < in.tokens; ++t) step(in, t, state, o);
}

void delta_rule_chunk(const DeltaRuleTokens& in, double* state, double* o) {
  const std::vector<double> total = inclusive_sum(in);
  const std::vector<double> pseudo = pseudo_values(in, total, state);
  chunk_outputs(in, total, pseudo, state, o);
  chunk_state(in, total, pseudo, state);
}

}  // namespace tandem::reference
