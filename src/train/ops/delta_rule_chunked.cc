// The delta rule's gradients through the WY form of a chunk.
//
// With G the running sum of the log decays in a chunk, E_ij = exp(G_i - G_j) for i >= j:
//   (I + L) z = r,  L_ij = beta_i <k_i, k_j E_ij> (i > j),  r = beta (v - (k e^G) S0)
//   o = (q e^G) S0 + A z,  A_ij = <q_i, k_j E_ij> (i >= j)
//   S1 = diag(e^{G_C}) S0 + (k exp(G_C - G))^T z
#include <algorithm>

#include "train/ops/delta_rule_head.h"

namespace tandem::train {
namespace {

constexpr std::int64_t kChunk = kDeltaRuleSegment;

template <typename T>
T dot(const T* x, const T* y, std::int64_t size) {
  T sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += x[i] * y[i];
  return sum;
}

template <typename T>
void add_scaled(T factor, const T* x, std::int64_t size, T* y) {
  for (std::int64_t i = 0; i < size; ++i) y[i] += factor * x[i];
}

// y += x S for x [d], S [d, d].
template <typename T>
void add_row_product(const T* x, const T* s, std::int64_t d, T* y) {
  for (std::int64_t i = 0; i < d; ++i) add_scaled(x[i], s + i * d, d, y);
}

// y = S x for x [d], S [d, d].
template <typename T>
void column_product(const T* s, const T* x, std::int64_t d, T* y) {
  for (std::int64_t i = 0; i < d; ++i) y[i] = dot(s + i * d, x, d);
}

// One head's chunk [first, first + count): what the forward direction computes, kept for the way
// back. Reused from chunk to chunk.
template <typename T>
class DeltaRuleChunk {
 public:
  explicit DeltaRuleChunk(std::int64_t d)
      : d_(d),
        from_start_(width(kChunk)),
        between_(width(kChunk * kChunk)),
        l_(kChunk * kChunk),
        a_(kChunk * kChunk),
        b_(width(kChunk)),
        z_(width(kChunk)),
        dz_(width(kChunk)),
        row_(width(1)),
        dpast_(width(kChunk)),
        dlast_(width(1)) {}

  // Reads the state before the chunk; computes decays, L, A and z.
  void forward(const DeltaRuleHead<T>& head, std::int64_t first, std::int64_t count,
               const T* state) {
    first_ = first;
    count_ = count;
    decays(head);
    for (std::int64_t i = 0; i < count; ++i) {
      // b = v - (k e^G) S0, then z by forward substitution
      for (std::int64_t c = 0; c < d_; ++c) row_[c] = -head.k[at(i) + c] * from_start_[i * d_ + c];
      std::copy_n(&head.v[at(i)], d_, &b_[i * d_]);
      add_row_product(row_.data(), state, d_, &b_[i * d_]);
      for (std::int64_t c = 0; c < d_; ++c) z_[i * d_ + c] = head.beta[first + i] * b_[i * d_ + c];
      for (std::int64_t j = 0; j <= i; ++j) {
        T kk = 0, qk = 0;
        const T* e = decay_between(i, j);
        for (std::int64_t c = 0; c < d_; ++c) {
          const T decayed = head.k[at(j) + c] * e[c];
          kk += head.k[at(i) + c] * decayed;
          qk += head.q[at(i) + c] * decayed;
        }
        a_[i * kChunk + j] = qk;
        l_[i * kChunk + j] = kk;  // without beta
        if (j < i) add_scaled(-head.beta[first + i] * kk, &z_[j * d_], d_, &z_[i * d_]);
      }
    }
  }

  // The state after the chunk, in place.
  void advance(const DeltaRuleHead<T>& head, T* state) const {
    const T* total = &from_start_[(count_ - 1) * d_];
    for (std::int64_t i = 0; i < d_; ++i) {
      for (std::int64_t j = 0; j < d_; ++j) state[i * d_ + j] *= total[i];
    }
    for (std::int64_t t = 0; t < count_; ++t) {
      const T* to_end = decay_between(count_ - 1, t);
      for (std::int64_t i = 0; i < d_; ++i) {
        add_scaled(head.k[at(t) + i] * to_end[i], &z_[t * d_], d_, state + i * d_);
      }
    }
  }

  // After forward(): adds the chunk's gradients to `head`; `dstate` turns from the gradient of the
  // state after the chunk into that of the state before it, `state`.
  void backward(DeltaRuleHead<T>& head, const T* state, ConstRows<T> d_o, std::int64_t first_row,
                std::int64_t column, T* dstate) {
    const auto grad = [&](std::int64_t i) { return d_o.row(first_row + i) + column; };
    std::fill(dpast_.begin(), dpast_.end(), T(0));
    solve_dz(head, grad, dstate);
    state_gradients(head, state, grad, dstate);
    pair_gradients(head, grad);
    decay_gradients(head);
  }

 private:
  std::size_t width(std::int64_t rows) const { return static_cast<std::size_t>(rows * d_); }
  std::int64_t at(std::int64_t i) const { return (first_ + i) * d_; }
  // exp(G_i - G_j), [d]
  const T* decay_between(std::int64_t i, std::int64_t j) const {
    return &between_[(i * kChunk + j) * d_];
  }

  // By repeated products, none of which exceeds 1: no exponent of a sum, nothing to overflow.
  void decays(const DeltaRuleHead<T>& head) {
    for (std::int64_t i = 0; i < count_; ++i) {
      for (std::int64_t c = 0; c < d_; ++c) {
        const T step = std::exp(head.a[at(i) + c]);
        from_start_[i * d_ + c] = (i == 0 ? T(1) : from_start_[(i - 1) * d_ + c]) * step;
        for (std::int64_t j = 0; j < i; ++j) {
          between_[(i * kChunk + j) * d_ + c] = between_[((i - 1) * kChunk + j) * d_ + c] * step;
        }
        between_[(i * kChunk + i) * d_ + c] = T(1);
      }
    }
  }

  // dz = A^T dO + (k exp(G_C - G)) dS1, then back through (I + L): afterwards dz_ is dr.
  // Also what reaches k and G through S1.
  template <typename Grad>
  void solve_dz(DeltaRuleHead<T>& head, const Grad& grad, const T* dstate) {
    std::fill(dlast_.begin(), dlast_.end(), T(0));
    for (std::int64_t j = count_ - 1; j >= 0; --j) {
      const T* to_end = decay_between(count_ - 1, j);
      for (std::int64_t c = 0; c < d_; ++c) row_[c] = head.k[at(j) + c] * to_end[c];
      T* dz = &dz_[j * d_];
      std::fill_n(dz, d_, T(0));
      add_row_product(row_.data(), dstate, d_, dz);
      column_product(dstate, &z_[j * d_], d_, row_.data());
      for (std::int64_t c = 0; c < d_; ++c) {
        const T dk = row_[c] * to_end[c];
        dpast_[j * d_ + c] += dk;
        dlast_[c] += head.k[at(j) + c] * dk;
      }
      for (std::int64_t i = j; i < count_; ++i) {
        add_scaled(a_[i * kChunk + j], grad(i), d_, dz);
        if (i > j) add_scaled(-head.beta[first_ + i] * l_[i * kChunk + j], &dz_[i * d_], d_, dz);
      }
    }
  }

  // Through S0: q e^G and k e^G, and the decay of the whole state. Overwrites dstate. dq and dk
  // hold only what comes with +G so far; what comes with -G collects in dpast_.
  template <typename Grad>
  void state_gradients(DeltaRuleHead<T>& head, const T* state, const Grad& grad, T* dstate) {
    const T* total = &from_start_[(count_ - 1) * d_];
    for (std::int64_t c = 0; c < d_; ++c) {
      dlast_[c] += total[c] * dot(state + c * d_, dstate + c * d_, d_);
      for (std::int64_t j = 0; j < d_; ++j) dstate[c * d_ + j] *= total[c];
    }
    for (std::int64_t i = 0; i < count_; ++i) {
      const T beta = head.beta[first_ + i];
      const T* dr = &dz_[i * d_];
      head.dbeta[first_ + i] += dot(&b_[i * d_], dr, d_);
      add_scaled(beta, dr, d_, &head.dv[at(i)]);
      column_product(state, grad(i), d_, row_.data());
      const T* decay = &from_start_[i * d_];
      for (std::int64_t c = 0; c < d_; ++c) {
        head.dq[at(i) + c] += row_[c] * decay[c];
        add_scaled(head.q[at(i) + c] * decay[c], grad(i), d_, dstate + c * d_);
      }
      column_product(state, dr, d_, row_.data());
      for (std::int64_t c = 0; c < d_; ++c) {
        head.dk[at(i) + c] -= beta * row_[c] * decay[c];
        add_scaled(-beta * head.k[at(i) + c] * decay[c], dr, d_, dstate + c * d_);
      }
    }
  }

  // Through the pairs of A and L.
  template <typename Grad>
  void pair_gradients(DeltaRuleHead<T>& head, const Grad& grad) {
    for (std::int64_t i = 0; i < count_; ++i) {
      const T beta = head.beta[first_ + i];
      for (std::int64_t j = 0; j <= i; ++j) {
        const T da = dot(grad(i), &z_[j * d_], d_);
        const T dl = j < i ? -dot(&dz_[i * d_], &z_[j * d_], d_) : T(0);
        head.dbeta[first_ + i] += dl * l_[i * kChunk + j];
        const T* e = decay_between(i, j);
        for (std::int64_t c = 0; c < d_; ++c) {
          const T kj = head.k[at(j) + c] * e[c];
          head.dq[at(i) + c] += da * kj;
          head.dk[at(i) + c] += dl * beta * kj;
          dpast_[j * d_ + c] += e[c] * (da * head.q[at(i) + c] + dl * beta * head.k[at(i) + c]);
        }
      }
    }
  }

  // dG = q dq + k dk(+G) - k dk(-G); a is summed into every later G of the chunk.
  void decay_gradients(DeltaRuleHead<T>& head) {
    std::copy(dlast_.begin(), dlast_.end(), row_.begin());
    for (std::int64_t i = count_ - 1; i >= 0; --i) {
      for (std::int64_t c = 0; c < d_; ++c) {
        const T k = head.k[at(i) + c];
        const T past = dpast_[i * d_ + c];
        row_[c] += head.q[at(i) + c] * head.dq[at(i) + c] + k * (head.dk[at(i) + c] - past);
        head.da[at(i) + c] += row_[c];
        head.dk[at(i) + c] += past;
      }
    }
  }

  std::int64_t d_;
  std::int64_t first_ = 0, count_ = 0;
  std::vector<T> from_start_;  // e^G [C, d]
  std::vector<T> between_;     // E [C, C, d], lower triangle
  std::vector<T> l_, a_;       // [C, C], lower triangles; L without its beta
  std::vector<T> b_;           // v - (k e^G) S0 [C, d]
  std::vector<T> z_, dz_;      // [C, d]
  std::vector<T> row_;         // [d]
  std::vector<T> dpast_;       // gradient of k where it comes with exp(-G) [C, d]
  std::vector<T> dlast_;       // gradient of G at the chunk's end [d]
};

template <typename T>
void reverse_chunks(DeltaRuleHead<T>& head, const PackedSequence& sequence, std::int64_t column,
                    ConstRows<T> d_o) {
  const std::int64_t square = head.d * head.d;
  const std::int64_t chunks = (head.rows + kChunk - 1) / kChunk;
  DeltaRuleChunk<T> chunk(head.d);
  const auto forward = [&](std::int64_t index, const T* state) {
    const std::int64_t first = index * kChunk;
    chunk.forward(head, first, std::min(kChunk, head.rows - first), state);
  };
  std::vector<T> states(static_cast<std::size_t>(chunks * square));
  for (std::int64_t index = 0; index + 1 < chunks; ++index) {
    T* next = &states[(index + 1) * square];
    std::copy_n(&states[index * square], square, next);
    forward(index, next);
    chunk.advance(head, next);
  }
  std::vector<T> dstate(static_cast<std::size_t>(square));
  for (std::int64_t index = chunks - 1; index >= 0; --index) {
    const T* state = &states[index * square];
    forward(index, state);
    chunk.backward(head, state, d_o, sequence.first_row + index * kChunk, column, dstate.data());
  }
}

}  // namespace

template <typename T>
void delta_rule_backward_chunked(const DeltaRuleShape& shape, ConstDeltaRuleRows<T> in,
                                 std::span<const PackedSequence> sequences, ConstRows<T> d_o,
                                 DeltaRuleRows<T> gradients, ThreadTeam& team) {
  for_each_head(shape, sequences, team, [&](const PackedSequence& sequence, std::int64_t h) {
    DeltaRuleHead<T> head(shape, in, sequence, h);
    head.start_gradients();
    reverse_chunks(head, sequence, h * head.d, d_o);
    head.store_gradients(shape, sequence, h, gradients);
  });
}

#define INSTANTIATE(T)                                                                     \
  template void delta_rule_backward_chunked(const DeltaRuleShape&, ConstDeltaRuleRows<T>,  \
                                            std::span<const PackedSequence>, ConstRows<T>, \
                                            DeltaRuleRows<T>, ThreadTeam&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
