// The delta rule's gradients through the WY form of a chunk.
//
// With G the running sum of the log decays in a chunk, E_ij = exp(G_i - G_j) for i >= j:
//   (I + L) z = r,  L_ij = beta_i <k_i, k_j E_ij> (i > j),  r = beta (v - (k e^G) S0)
//   o = (q e^G) S0 + A z,  A_ij = <q_i, k_j E_ij> (i >= j)
//   S1 = diag(e^{G_C}) S0 + (k exp(G_C - G))^T z
// What touches a state is a matrix product; what touches pairs of tokens is elementwise.
#include <algorithm>

#include "kernels/cpu/targets.h"
#include "train/ops/delta_rule_head.h"
#include "train/products_fp32.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "train/ops/delta_rule_chunked.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// The loops are plain code that the compiler vectorises for each target; sums have a fixed number
// of partial sums, so their order is the same for all.
HWY_BEFORE_NAMESPACE();
namespace tandem::train::HWY_NAMESPACE {

constexpr std::int64_t kChunk = kDeltaRuleSegment;
constexpr std::int64_t kPartialSums = 16;

template <typename T>
T dot(const T* x, const T* y, std::int64_t size) {
  T part[kPartialSums] = {};
  std::int64_t i = 0;
  for (; i + kPartialSums <= size; i += kPartialSums) {
    for (std::int64_t l = 0; l < kPartialSums; ++l) part[l] += x[i + l] * y[i + l];
  }
  T sum = 0;
  for (; i < size; ++i) sum += x[i] * y[i];
  for (std::int64_t l = 0; l < kPartialSums; ++l) sum += part[l];
  return sum;
}

template <typename T>
void add_scaled(T factor, const T* x, std::int64_t size, T* y) {
  for (std::int64_t i = 0; i < size; ++i) y[i] += factor * x[i];
}

// c[rows, columns] += a[rows, depth] b[depth, columns]; a(m, k) = a[m * a_row + k * a_step].
inline void add_product(const float* a, std::int64_t a_row, std::int64_t a_step, const float* b,
                        std::int64_t b_row, float* c, std::int64_t c_row, std::int64_t rows,
                        std::int64_t columns, std::int64_t depth) {
  add_product_fp32({a, a_row, a_step, b, b_row, c, c_row, rows, columns, depth});
}
inline void add_product(const double* a, std::int64_t a_row, std::int64_t a_step, const double* b,
                        std::int64_t b_row, double* c, std::int64_t c_row, std::int64_t rows,
                        std::int64_t columns, std::int64_t depth) {
  for (std::int64_t m = 0; m < rows; ++m) {
    for (std::int64_t k = 0; k < depth; ++k) {
      add_scaled(a[m * a_row + k * a_step], b + k * b_row, columns, c + m * c_row);
    }
  }
}

// One head's chunk [first, first + count): what the forward direction computes, kept for the way
// back. Reused from chunk to chunk and from head to head.
template <typename T>
class DeltaRuleChunk {
 public:
  void resize(std::int64_t d) {
    d_ = d;
    for (auto* rows : {&from_start_, &b_, &z_, &dz_, &dpast_}) rows->resize(width(kChunk));
    for (auto* rows : {&left_, &right_}) rows->resize(width(2 * kChunk));
    between_.resize(width(kChunk * kChunk));
    for (auto* columns : {&transposed_, &through_}) columns->resize(width(2 * kChunk));
    for (auto* pairs : {&l_, &a_}) pairs->resize(kChunk * kChunk);
    for (auto* row : {&row_, &dlast_}) row->resize(width(1));
  }

  // Reads the state before the chunk; computes decays, L, A and z.
  void forward(const DeltaRuleHead<T>& head, std::int64_t first, std::int64_t count,
               const T* state) {
    first_ = first;
    count_ = count;
    decays(head);
    pairs(head);
    for (std::int64_t i = 0; i < count; ++i) {
      const T* k = &head.k[at(i)];
      for (std::int64_t c = 0; c < d_; ++c) left_[i * d_ + c] = -k[c] * from_start_[i * d_ + c];
    }
    std::copy_n(&head.v[at(0)], count * d_, b_.data());
    add_product(left_.data(), d_, 1, state, d_, b_.data(), d_, count, d_, d_);
    for (std::int64_t i = 0; i < count; ++i) {
      const T beta = head.beta[first + i];
      for (std::int64_t c = 0; c < d_; ++c) z_[i * d_ + c] = beta * b_[i * d_ + c];
      for (std::int64_t j = 0; j < i; ++j) {
        add_scaled(-beta * l_[i * kChunk + j], &z_[j * d_], d_, &z_[i * d_]);
      }
    }
  }

  // The state after the chunk, in place.
  void advance(const DeltaRuleHead<T>& head, T* state) {
    scale_rows(state);
    keys_to_end(head);
    add_product(left_.data(), 1, d_, z_.data(), d_, state, d_, d_, d_, count_);
  }

  // After forward(): adds the chunk's gradients to `head`; `dstate` turns from the gradient of the
  // state after the chunk into that of the state before it, `state`.
  void backward(DeltaRuleHead<T>& head, const T* state, ConstRows<T> d_o, std::int64_t first_row,
                std::int64_t column, T* dstate) {
    // From here on the upper half of right_ holds dO, the lower one dr.
    for (std::int64_t i = 0; i < count_; ++i) {
      std::copy_n(d_o.row(first_row + i) + column, d_, &right_[i * d_]);
    }
    solve_dz(head, dstate);
    end_gradients(head, dstate);
    state_gradients(head, state, dstate);
    pair_gradients(head);
    decay_gradients(head);
  }

 private:
  std::size_t width(std::int64_t rows) const { return static_cast<std::size_t>(rows * d_); }
  std::int64_t at(std::int64_t i) const { return (first_ + i) * d_; }
  // exp(G_i - G_j), [d]
  const T* decay_between(std::int64_t i, std::int64_t j) const {
    return &between_[(i * kChunk + j) * d_];
  }
  const T* d_output(std::int64_t i) const { return &right_[i * d_]; }

  // By repeated products, none of which exceeds 1: no exponent of a sum, nothing to overflow.
  void decays(const DeltaRuleHead<T>& head) {
    for (std::int64_t i = 0; i < count_; ++i) {
      for (std::int64_t c = 0; c < d_; ++c) row_[c] = std::exp(head.a[at(i) + c]);
      T* start = &from_start_[i * d_];
      for (std::int64_t c = 0; c < d_; ++c) start[c] = (i == 0 ? T(1) : start[c - d_]) * row_[c];
      for (std::int64_t j = 0; j < i; ++j) {
        const T* before = decay_between(i - 1, j);
        T* now = &between_[(i * kChunk + j) * d_];
        for (std::int64_t c = 0; c < d_; ++c) now[c] = before[c] * row_[c];
      }
      std::fill_n(&between_[(i * kChunk + i) * d_], d_, T(1));
    }
  }

  // A, and L without its beta. Above the diagonal both stay as they were made: zero.
  void pairs(const DeltaRuleHead<T>& head) {
    for (std::int64_t i = 0; i < count_; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        const T* e = decay_between(i, j);
        const T* k = &head.k[at(j)];
        for (std::int64_t c = 0; c < d_; ++c) row_[c] = k[c] * e[c];
        a_[i * kChunk + j] = dot(&head.q[at(i)], row_.data(), d_);
        l_[i * kChunk + j] = dot(&head.k[at(i)], row_.data(), d_);
      }
    }
  }

  void scale_rows(T* state) const {
    const T* total = &from_start_[(count_ - 1) * d_];
    for (std::int64_t i = 0; i < d_; ++i) {
      for (std::int64_t j = 0; j < d_; ++j) state[i * d_ + j] *= total[i];
    }
  }

  // left_ = k exp(G_C - G)
  void keys_to_end(const DeltaRuleHead<T>& head) {
    for (std::int64_t j = 0; j < count_; ++j) {
      const T* to_end = decay_between(count_ - 1, j);
      const T* k = &head.k[at(j)];
      for (std::int64_t c = 0; c < d_; ++c) left_[j * d_ + c] = k[c] * to_end[c];
    }
  }

  // dz = A^T dO + (k exp(G_C - G)) dS1, then back through (I + L): dr, kept in dz_ and right_.
  void solve_dz(const DeltaRuleHead<T>& head, const T* dstate) {
    std::fill(dz_.begin(), dz_.end(), T(0));
    keys_to_end(head);
    add_product(left_.data(), d_, 1, dstate, d_, dz_.data(), d_, count_, d_, d_);
    add_product(a_.data(), 1, kChunk, right_.data(), d_, dz_.data(), d_, count_, d_, count_);
    for (std::int64_t j = count_ - 1; j >= 0; --j) {
      for (std::int64_t i = j + 1; i < count_; ++i) {
        const T factor = -head.beta[first_ + i] * l_[i * kChunk + j];
        add_scaled(factor, &dz_[i * d_], d_, &dz_[j * d_]);
      }
    }
    std::copy_n(dz_.data(), count_ * d_, &right_[count_ * d_]);
  }

  // through_[c][t] = sum_v s[c][v] rows[t][v] for `count` rows.
  void rows_through(const T* s, const T* rows, std::int64_t count) {
    constexpr std::int64_t kStride = 2 * kChunk;
    for (std::int64_t t = 0; t < count; ++t) {
      for (std::int64_t v = 0; v < d_; ++v) transposed_[v * kStride + t] = rows[t * d_ + v];
    }
    std::fill(through_.begin(), through_.end(), T(0));
    add_product(s, d_, 1, transposed_.data(), kStride, through_.data(), kStride, d_, count, d_);
  }
  T through(std::int64_t c, std::int64_t t) const { return through_[c * 2 * kChunk + t]; }

  // What reaches k and G through S1: k exp(G_C - G), and the decay of the whole state follows.
  void end_gradients(const DeltaRuleHead<T>& head, const T* dstate) {
    rows_through(dstate, z_.data(), count_);
    std::fill(dlast_.begin(), dlast_.end(), T(0));
    for (std::int64_t j = 0; j < count_; ++j) {
      const T* to_end = decay_between(count_ - 1, j);
      for (std::int64_t c = 0; c < d_; ++c) {
        const T dk = through(c, j) * to_end[c];
        dpast_[j * d_ + c] = dk;
        dlast_[c] += head.k[at(j) + c] * dk;
      }
    }
  }

  // Through S0: q e^G and k e^G, and the decay of the whole state. dq and dk hold only what comes
  // with +G so far; what comes with -G collects in dpast_.
  void state_gradients(DeltaRuleHead<T>& head, const T* state, T* dstate) {
    const T* total = &from_start_[(count_ - 1) * d_];
    for (std::int64_t c = 0; c < d_; ++c) {
      dlast_[c] += total[c] * dot(state + c * d_, dstate + c * d_, d_);
    }
    scale_rows(dstate);
    rows_through(state, right_.data(), 2 * count_);
    for (std::int64_t i = 0; i < count_; ++i) {
      const T beta = head.beta[first_ + i];
      head.dbeta[first_ + i] += dot(&b_[i * d_], &dz_[i * d_], d_);
      add_scaled(beta, &dz_[i * d_], d_, &head.dv[at(i)]);
      const T* decay = &from_start_[i * d_];
      for (std::int64_t c = 0; c < d_; ++c) {
        head.dq[at(i) + c] += through(c, i) * decay[c];
        head.dk[at(i) + c] -= beta * through(c, count_ + i) * decay[c];
        left_[i * d_ + c] = head.q[at(i) + c] * decay[c];
        left_[(count_ + i) * d_ + c] = -beta * head.k[at(i) + c] * decay[c];
      }
    }
    add_product(left_.data(), 1, d_, right_.data(), d_, dstate, d_, d_, d_, 2 * count_);
  }

  // Through the pairs of A and L.
  void pair_gradients(DeltaRuleHead<T>& head) {
    for (std::int64_t i = 0; i < count_; ++i) {
      const T beta = head.beta[first_ + i];
      const T* qi = &head.q[at(i)];
      const T* ki = &head.k[at(i)];
      T* dq = &head.dq[at(i)];
      T* dk = &head.dk[at(i)];
      for (std::int64_t j = 0; j <= i; ++j) {
        const T da = dot(d_output(i), &z_[j * d_], d_);
        const T dl = j < i ? -dot(&dz_[i * d_], &z_[j * d_], d_) : T(0);
        head.dbeta[first_ + i] += dl * l_[i * kChunk + j];
        const T* e = decay_between(i, j);
        const T* kj = &head.k[at(j)];
        T* past = &dpast_[j * d_];
        const T key_factor = dl * beta;
        for (std::int64_t c = 0; c < d_; ++c) {
          const T decayed = kj[c] * e[c];
          dq[c] += da * decayed;
          dk[c] += key_factor * decayed;
          past[c] += e[c] * (da * qi[c] + key_factor * ki[c]);
        }
      }
    }
  }

  // dG = q dq + k dk(+G) - k dk(-G); a is summed into every later G of the chunk.
  void decay_gradients(DeltaRuleHead<T>& head) {
    std::copy(dlast_.begin(), dlast_.end(), row_.begin());
    for (std::int64_t i = count_ - 1; i >= 0; --i) {
      const T* q = &head.q[at(i)];
      const T* k = &head.k[at(i)];
      const T* dq = &head.dq[at(i)];
      const T* past = &dpast_[i * d_];
      T* dk = &head.dk[at(i)];
      T* da = &head.da[at(i)];
      for (std::int64_t c = 0; c < d_; ++c) {
        row_[c] += q[c] * dq[c] + k[c] * (dk[c] - past[c]);
        da[c] += row_[c];
        dk[c] += past[c];
      }
    }
  }

  std::int64_t d_ = 0;
  std::int64_t first_ = 0, count_ = 0;
  std::vector<T> from_start_;            // e^G [C, d]
  std::vector<T> between_;               // E [C, C, d], lower triangle
  std::vector<T> l_, a_;                 // [C, C], lower triangles; L without its beta
  std::vector<T> b_;                     // v - (k e^G) S0 [C, d]
  std::vector<T> z_, dz_;                // [C, d]
  std::vector<T> left_, right_;          // rows of a product [2 C, d]
  std::vector<T> transposed_, through_;  // [d, 2 C]
  std::vector<T> row_;                   // [d]
  std::vector<T> dpast_;                 // gradient of k where it comes with exp(-G) [C, d]
  std::vector<T> dlast_;                 // gradient of G at the chunk's end [d]
};

template <typename T>
void reverse_chunks(DeltaRuleHead<T>& head, std::int64_t first_row, std::int64_t column,
                    ConstRows<T> d_o) {
  // Kept from head to head: fresh memory of this size costs as much as the work in it.
  static thread_local DeltaRuleChunk<T> chunk;
  static thread_local std::vector<T> states, dstate;
  chunk.resize(head.d);
  const std::int64_t square = head.d * head.d;
  const std::int64_t chunks = (head.rows + kChunk - 1) / kChunk;
  states.resize(static_cast<std::size_t>(chunks * square));
  std::fill_n(states.data(), square, T(0));
  for (std::int64_t index = 0; index + 1 < chunks; ++index) {
    T* next = &states[(index + 1) * square];
    std::copy_n(&states[index * square], square, next);
    chunk.forward(head, index * kChunk, kChunk, next);
    chunk.advance(head, next);
  }
  dstate.assign(static_cast<std::size_t>(square), T(0));
  for (std::int64_t index = chunks - 1; index >= 0; --index) {
    const T* state = &states[index * square];
    const std::int64_t first = index * kChunk;
    chunk.forward(head, first, std::min(kChunk, head.rows - first), state);
    chunk.backward(head, state, d_o, first_row + first, column, dstate.data());
  }
}

void reverse_chunks_fp32(DeltaRuleHead<float>& head, std::int64_t first_row, std::int64_t column,
                         ConstRows<float> d_o) {
  reverse_chunks<float>(head, first_row, column, d_o);
}
void reverse_chunks_fp64(DeltaRuleHead<double>& head, std::int64_t first_row, std::int64_t column,
                         ConstRows<double> d_o) {
  reverse_chunks<double>(head, first_row, column, d_o);
}

}  // namespace tandem::train::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::train {

HWY_EXPORT(reverse_chunks_fp32);
HWY_EXPORT(reverse_chunks_fp64);

template <typename T>
void delta_rule_backward_chunked(const DeltaRuleShape& shape, ConstDeltaRuleRows<T> in,
                                 std::span<const PackedSequence> sequences, ConstRows<T> d_o,
                                 DeltaRuleRows<T> gradients, ThreadTeam& team) {
  for_each_head(shape, sequences, team, [&](const PackedSequence& sequence, std::int64_t h) {
    DeltaRuleHead<T> head(shape, in, sequence, h);
    head.start_gradients();
    if constexpr (std::is_same_v<T, float>) {
      HWY_DYNAMIC_DISPATCH(reverse_chunks_fp32)(head, sequence.first_row, h * head.d, d_o);
    } else {
      HWY_DYNAMIC_DISPATCH(reverse_chunks_fp64)(head, sequence.first_row, h * head.d, d_o);
    }
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
#endif  // HWY_ONCE
