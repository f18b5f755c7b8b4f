// One head of one sequence of the delta rule: what the two backward forms share.
#pragma once

#include <cmath>
#include <vector>

#include "train/ops/kda.h"

namespace tandem::train {

inline constexpr double kDeltaRuleNormEps = 1e-6;  // kernels/ops/kda.h: kKdaNormEps

// q (scaled by d^-1/2) and k normalised, with what the way back needs. All [rows, d] or [rows].
template <typename T>
struct DeltaRuleHead {
  std::int64_t rows = 0;
  std::int64_t d = 0;
  std::vector<T> q, k, v, a;        // a is the log decay
  std::vector<T> q_scale, k_scale;  // inverse lengths; q_scale without d^-1/2
  std::vector<T> beta;
  std::vector<T> dq, dk, dv, da, dbeta;

  DeltaRuleHead(const DeltaRuleShape& shape, const ConstDeltaRuleRows<T>& in,
                const PackedSequence& sequence, std::int64_t head)
      : rows(sequence.rows), d(shape.head_dim) {
    const auto size = static_cast<std::size_t>(rows * d);
    for (auto* values : {&q, &k, &v, &a}) values->resize(size);
    for (auto* values : {&q_scale, &k_scale, &beta}) {
      values->resize(static_cast<std::size_t>(rows));
    }
    const std::int64_t inner = shape.heads * d;
    const T query_scale = T(1) / std::sqrt(static_cast<T>(d));
    for (std::int64_t t = 0; t < rows; ++t) {
      const T* row = in.qkv.row(sequence.first_row + t) + head * d;
      const T* decay = in.decay.row(sequence.first_row + t) + head * d;
      q_scale[t] = inverse_length(row);
      k_scale[t] = inverse_length(row + inner);
      for (std::int64_t i = 0; i < d; ++i) {
        q[t * d + i] = row[i] * q_scale[t] * query_scale;
        k[t * d + i] = row[inner + i] * k_scale[t];
        v[t * d + i] = row[2 * inner + i];
        a[t * d + i] = decay[i];
      }
      beta[t] = in.beta.row(sequence.first_row + t)[head];
    }
  }

  void start_gradients() {
    for (auto* values : {&dq, &dk, &dv, &da}) values->assign(static_cast<std::size_t>(rows * d), 0);
    dbeta.assign(static_cast<std::size_t>(rows), 0);
  }

  // Adds the gradients to the rows of the batch, back through the two normalisations.
  void store_gradients(const DeltaRuleShape& shape, const PackedSequence& sequence,
                       std::int64_t head, const DeltaRuleRows<T>& out) const {
    const std::int64_t inner = shape.heads * d;
    const T query_scale = T(1) / std::sqrt(static_cast<T>(d));
    for (std::int64_t t = 0; t < rows; ++t) {
      T* row = out.qkv.row(sequence.first_row + t) + head * d;
      T* decay = out.decay.row(sequence.first_row + t) + head * d;
      // The scaled query is query_scale times a unit vector.
      add_unit_gradient(&q[t * d], &dq[t * d], q_scale[t] * query_scale,
                        T(1) / (query_scale * query_scale), row);
      add_unit_gradient(&k[t * d], &dk[t * d], k_scale[t], T(1), row + inner);
      for (std::int64_t i = 0; i < d; ++i) {
        row[2 * inner + i] += dv[t * d + i];
        decay[i] += da[t * d + i];
      }
      out.beta.row(sequence.first_row + t)[head] += dbeta[t];
    }
  }

  // S <- diag(exp(a_t)) S; S <- S + k_t (beta_t (v_t - S^T k_t))^T, in place. `error` [d] receives
  // v_t - S^T k_t.
  void advance(std::int64_t t, T* state, T* error) const {
    const T* kt = &k[t * d];
    for (std::int64_t j = 0; j < d; ++j) error[j] = v[t * d + j];
    for (std::int64_t i = 0; i < d; ++i) {
      const T decay = std::exp(a[t * d + i]);
      T* s = state + i * d;
      for (std::int64_t j = 0; j < d; ++j) {
        s[j] *= decay;
        error[j] -= kt[i] * s[j];
      }
    }
    for (std::int64_t i = 0; i < d; ++i) {
      const T factor = kt[i] * beta[t];
      T* s = state + i * d;
      for (std::int64_t j = 0; j < d; ++j) s[j] += factor * error[j];
    }
  }

 private:
  T inverse_length(const T* x) const {
    double sum = 0;
    for (std::int64_t i = 0; i < d; ++i) sum += static_cast<double>(x[i]) * x[i];
    return static_cast<T>(1.0 / std::sqrt(sum + kDeltaRuleNormEps));
  }

  // For y = c x rho with rho = (sum x^2 + eps)^-1/2:  dx = c rho dy - y <y, dy> rho / c, since
  // d rho/dx = -x rho^3. `scale` is c rho, `inverse_square` 1/c^2.
  void add_unit_gradient(const T* y, const T* dy, T scale, T inverse_square, T* dx) const {
    T product = 0;
    for (std::int64_t i = 0; i < d; ++i) product += y[i] * dy[i];
    for (std::int64_t i = 0; i < d; ++i) {
      dx[i] += scale * (dy[i] - y[i] * product * inverse_square);
    }
  }
};

// Calls body(sequence, head) for every head of every sequence, on the team.
template <typename Body>
void for_each_head(const DeltaRuleShape& shape, std::span<const PackedSequence> sequences,
                   ThreadTeam& team, const Body& body) {
  const auto jobs = static_cast<std::int64_t>(sequences.size()) * shape.heads;
  team.parallel_for(jobs, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t job = begin; job < end; ++job) {
      body(sequences[static_cast<std::size_t>(job / shape.heads)], job % shape.heads);
    }
  });
}

}  // namespace tandem::train
