#include "train/ops/mla.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tandem::train {
namespace {

// One head's view of the inputs.
template <typename T>
struct HeadView {
  const MlaDims& dims;
  const ConstAttentionRows<T>& in;
  std::int64_t head;

  const T* query(std::int64_t t) const { return in.q.row(t) + head * (dims.nope + dims.pe); }
  const T* key(std::int64_t t) const { return in.kv.row(t) + head * (dims.nope + dims.value); }
  const T* value(std::int64_t t) const { return key(t) + dims.nope; }

  // softmax over keys [first, query_row] into p.
  void probabilities(std::int64_t first, std::int64_t query_row, std::vector<T>& p) const {
    const T scale = T(1) / std::sqrt(static_cast<T>(dims.nope + dims.pe));
    const T* q = query(query_row);
    p.clear();
    for (std::int64_t j = first; j <= query_row; ++j) {
      T sum = 0;
      for (std::int64_t i = 0; i < dims.nope; ++i) sum += q[i] * key(j)[i];
      for (std::int64_t i = 0; i < dims.pe; ++i) sum += q[dims.nope + i] * in.pe.row(j)[i];
      p.push_back(sum * scale);
    }
    const T largest = *std::max_element(p.begin(), p.end());
    T total = 0;
    for (T& x : p) total += (x = std::exp(x - largest));
    for (T& x : p) x /= total;
  }
};

template <typename T>
void add_scaled(T factor, const T* x, std::int64_t size, T* y) {
  for (std::int64_t i = 0; i < size; ++i) y[i] += factor * x[i];
}

template <typename T>
T dot(const T* x, const T* y, std::int64_t size) {
  T sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += x[i] * y[i];
  return sum;
}

// Gradients of one head; dpe [T, pe] is this head's share.
template <typename T>
void head_backward(const HeadView<T>& view, std::span<const PackedSequence> sequences,
                   ConstRows<T> d_o, const AttentionRows<T>& gradients, T* dpe) {
  const MlaDims& dims = view.dims;
  const T scale = T(1) / std::sqrt(static_cast<T>(dims.nope + dims.pe));
  std::vector<T> p, dp;
  for (const PackedSequence& sequence : sequences) {
    const std::int64_t first = sequence.first_row;
    for (std::int64_t t = first; t < first + sequence.rows; ++t) {
      view.probabilities(first, t, p);
      const T* grad = d_o.row(t) + view.head * dims.value;
      dp.assign(p.size(), T(0));
      T mean = 0;
      for (std::size_t j = 0; j < p.size(); ++j) {
        dp[j] = dot(grad, view.value(first + static_cast<std::int64_t>(j)), dims.value);
        mean += p[j] * dp[j];
      }
      T* dq = gradients.q.row(t) + view.head * (dims.nope + dims.pe);
      const T* q = view.query(t);
      for (std::size_t j = 0; j < p.size(); ++j) {
        const std::int64_t row = first + static_cast<std::int64_t>(j);
        T* dkey = gradients.kv.row(row) + view.head * (dims.nope + dims.value);
        const T ds = scale * p[j] * (dp[j] - mean);
        add_scaled(p[j], grad, dims.value, dkey + dims.nope);
        add_scaled(ds, q, dims.nope, dkey);
        add_scaled(ds, q + dims.nope, dims.pe, dpe + row * dims.pe);
        add_scaled(ds, view.key(row), dims.nope, dq);
        add_scaled(ds, view.in.pe.row(row), dims.pe, dq + dims.nope);
      }
    }
  }
}

}  // namespace

template <typename T>
void attention(const MlaDims& dims, ConstAttentionRows<T> in,
               std::span<const PackedSequence> sequences, Rows<T> o, ThreadTeam& team) {
  team.parallel_for(dims.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> p;
    for (std::int64_t h = begin; h < end; ++h) {
      const HeadView<T> view{dims, in, h};
      for (const PackedSequence& sequence : sequences) {
        for (std::int64_t r = 0; r < sequence.rows; ++r) {
          const std::int64_t t = sequence.first_row + r;
          view.probabilities(sequence.first_row, t, p);
          T* out = o.row(t) + h * dims.value;
          std::fill_n(out, dims.value, T(0));
          for (std::int64_t j = 0; j <= r; ++j) {
            add_scaled(p[static_cast<std::size_t>(j)], view.value(sequence.first_row + j),
                       dims.value, out);
          }
        }
      }
    }
  });
}

template <typename T>
void attention_backward(const MlaDims& dims, ConstAttentionRows<T> in,
                        std::span<const PackedSequence> sequences, ConstRows<T> d_o,
                        AttentionRows<T> gradients, ThreadTeam& team) {
  // The shared key slice sums over heads: each head fills a matrix of its own, added in order.
  const std::int64_t share = in.pe.rows * dims.pe;
  std::vector<T> dpe(static_cast<std::size_t>(share * dims.heads));
  team.parallel_for(dims.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t h = begin; h < end; ++h) {
      head_backward<T>({dims, in, h}, sequences, d_o, gradients, dpe.data() + h * share);
    }
  });
  for (std::int64_t h = 0; h < dims.heads; ++h) {
    for (std::int64_t t = 0; t < in.pe.rows; ++t) {
      add_scaled(T(1), dpe.data() + h * share + t * dims.pe, dims.pe, gradients.pe.row(t));
    }
  }
}

#define INSTANTIATE(T)                                                                            \
  template void attention(const MlaDims&, ConstAttentionRows<T>, std::span<const PackedSequence>, \
                          Rows<T>, ThreadTeam&);                                                  \
  template void attention_backward(const MlaDims&, ConstAttentionRows<T>,                         \
                                   std::span<const PackedSequence>, ConstRows<T>,                 \
                                   AttentionRows<T>, ThreadTeam&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
