// The delta rule token by token, and its reverse mode.
#include <algorithm>

#include "train/ops/delta_rule_head.h"

namespace tandem::train {
namespace {

// Going back over one token: `before` is the state before it, `after` the one after; `dstate` turns
// from the gradient of `after` into that of `before`.
template <typename T>
class TokenReversal {
 public:
  explicit TokenReversal(std::int64_t d)
      : d_(d), decayed_(square()), error_(width()), dw_(width()) {}

  void run(DeltaRuleHead<T>& head, std::int64_t t, const T* before, const T* after, const T* d_o,
           T* dstate) {
    read_output(head, t, after, d_o, dstate);
    decay_state(head, t, before);
    write_back(head, t, dstate);
    for (std::int64_t i = 0; i < d_; ++i) {
      const T decay = std::exp(head.a[t * d_ + i]);
      T da = 0;
      for (std::int64_t j = 0; j < d_; ++j) {
        da += dstate[i * d_ + j] * decayed_[i * d_ + j];
        dstate[i * d_ + j] *= decay;
      }
      head.da[t * d_ + i] += da;
    }
  }

 private:
  std::size_t width() const { return static_cast<std::size_t>(d_); }
  std::size_t square() const { return static_cast<std::size_t>(d_ * d_); }

  // o = S^T q
  void read_output(DeltaRuleHead<T>& head, std::int64_t t, const T* after, const T* d_o,
                   T* dstate) const {
    for (std::int64_t i = 0; i < d_; ++i) {
      T dq = 0;
      for (std::int64_t j = 0; j < d_; ++j) {
        dq += after[i * d_ + j] * d_o[j];
        dstate[i * d_ + j] += head.q[t * d_ + i] * d_o[j];
      }
      head.dq[t * d_ + i] += dq;
    }
  }

  // decayed = diag(exp(a)) before;  error = v - decayed^T k
  void decay_state(const DeltaRuleHead<T>& head, std::int64_t t, const T* before) {
    std::copy_n(&head.v[t * d_], d_, error_.data());
    for (std::int64_t i = 0; i < d_; ++i) {
      const T decay = std::exp(head.a[t * d_ + i]);
      for (std::int64_t j = 0; j < d_; ++j) {
        decayed_[i * d_ + j] = decay * before[i * d_ + j];
        error_[j] -= head.k[t * d_ + i] * decayed_[i * d_ + j];
      }
    }
  }

  // S = decayed + k w^T with w = beta error
  void write_back(DeltaRuleHead<T>& head, std::int64_t t, T* dstate) {
    const T beta = head.beta[t];
    std::fill(dw_.begin(), dw_.end(), T(0));
    for (std::int64_t i = 0; i < d_; ++i) {
      T dk = 0;
      for (std::int64_t j = 0; j < d_; ++j) {
        dk += dstate[i * d_ + j] * (beta * error_[j]);
        dw_[j] += head.k[t * d_ + i] * dstate[i * d_ + j];
      }
      head.dk[t * d_ + i] += dk;
    }
    for (std::int64_t j = 0; j < d_; ++j) {
      head.dbeta[t] += dw_[j] * error_[j];
      dw_[j] *= beta;  // from here the gradient of the error
      head.dv[t * d_ + j] += dw_[j];
    }
    for (std::int64_t i = 0; i < d_; ++i) {
      T dk = 0;
      for (std::int64_t j = 0; j < d_; ++j) {
        dk += decayed_[i * d_ + j] * dw_[j];
        dstate[i * d_ + j] -= head.k[t * d_ + i] * dw_[j];
      }
      head.dk[t * d_ + i] -= dk;
    }
  }

  std::int64_t d_;
  std::vector<T> decayed_, error_, dw_;
};

// The states before tokens 0, segment, 2*segment, ...: [segments, d, d].
template <typename T>
std::vector<T> segment_states(const DeltaRuleHead<T>& head) {
  const auto square = static_cast<std::size_t>(head.d * head.d);
  std::vector<T> kept;
  std::vector<T> state(square), error(static_cast<std::size_t>(head.d));
  for (std::int64_t t = 0; t < head.rows; ++t) {
    if (t % kDeltaRuleSegment == 0) kept.insert(kept.end(), state.begin(), state.end());
    head.advance(t, state.data(), error.data());
  }
  return kept;
}

template <typename T>
void reverse_head(DeltaRuleHead<T>& head, const PackedSequence& sequence, std::int64_t column,
                  ConstRows<T> d_o) {
  const std::int64_t square = head.d * head.d;
  const std::vector<T> kept = segment_states(head);
  std::vector<T> states(static_cast<std::size_t>((kDeltaRuleSegment + 1) * square));
  std::vector<T> dstate(static_cast<std::size_t>(square));
  std::vector<T> error(static_cast<std::size_t>(head.d));
  TokenReversal<T> reversal(head.d);
  for (std::int64_t segment = (head.rows - 1) / kDeltaRuleSegment; segment >= 0; --segment) {
    const std::int64_t first = segment * kDeltaRuleSegment;
    const std::int64_t count = std::min(kDeltaRuleSegment, head.rows - first);
    std::copy_n(&kept[segment * square], square, states.data());
    for (std::int64_t i = 0; i < count; ++i) {
      T* next = &states[(i + 1) * square];
      std::copy_n(&states[i * square], square, next);
      head.advance(first + i, next, error.data());
    }
    for (std::int64_t i = count - 1; i >= 0; --i) {
      const T* grad = d_o.row(sequence.first_row + first + i) + column;
      reversal.run(head, first + i, &states[i * square], &states[(i + 1) * square], grad,
                   dstate.data());
    }
  }
}

}  // namespace

template <typename T>
void delta_rule(const DeltaRuleShape& shape, ConstDeltaRuleRows<T> in,
                std::span<const PackedSequence> sequences, Rows<T> o, ThreadTeam& team) {
  for_each_head(shape, sequences, team, [&](const PackedSequence& sequence, std::int64_t h) {
    const DeltaRuleHead<T> head(shape, in, sequence, h);
    const std::int64_t d = head.d;
    std::vector<T> state(static_cast<std::size_t>(d * d)), error(static_cast<std::size_t>(d));
    for (std::int64_t t = 0; t < head.rows; ++t) {
      head.advance(t, state.data(), error.data());
      T* out = o.row(sequence.first_row + t) + h * d;
      std::fill_n(out, d, T(0));
      for (std::int64_t i = 0; i < d; ++i) {
        for (std::int64_t j = 0; j < d; ++j) out[j] += head.q[t * d + i] * state[i * d + j];
      }
    }
  });
}

template <typename T>
void delta_rule_backward_recurrent(const DeltaRuleShape& shape, ConstDeltaRuleRows<T> in,
                                   std::span<const PackedSequence> sequences, ConstRows<T> d_o,
                                   DeltaRuleRows<T> gradients, ThreadTeam& team) {
  for_each_head(shape, sequences, team, [&](const PackedSequence& sequence, std::int64_t h) {
    DeltaRuleHead<T> head(shape, in, sequence, h);
    head.start_gradients();
    reverse_head(head, sequence, h * head.d, d_o);
    head.store_gradients(shape, sequence, h, gradients);
  });
}

#define INSTANTIATE(T)                                                                       \
  template void delta_rule(const DeltaRuleShape&, ConstDeltaRuleRows<T>,                     \
                           std::span<const PackedSequence>, Rows<T>, ThreadTeam&);           \
  template void delta_rule_backward_recurrent(const DeltaRuleShape&, ConstDeltaRuleRows<T>,  \
                                              std::span<const PackedSequence>, ConstRows<T>, \
                                              DeltaRuleRows<T>, ThreadTeam&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tandem::train
