// What both forms of the delta rule share: a head's tokens, normalised, and the token-by-token
// rule.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/ops/kda.h"

#if defined(TANDEM_KERNELS_CPU_KDA_TOKENS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_KDA_TOKENS_INL_H_
#undef TANDEM_KERNELS_CPU_KDA_TOKENS_INL_H_
#else
#define TANDEM_KERNELS_CPU_KDA_TOKENS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

// Tokens [row, row + count) of a head. q and k are copies, normalised, q scaled by d^-1/2; decay is
// a copy too, exp(g). All of them [count, d] in rows of `stride`, whole vectors with zeros behind
// d.
struct HeadTokens {
  std::int64_t count;
  std::int64_t stride;
  float* q;
  float* k;
  float* decay;
  ConstActivations v;     // [count, d]
  ConstActivations beta;  // [count, 1]
  Activations o;          // [count, d]
};

HWY_INLINE std::int64_t whole_vectors(std::int64_t size) {
  return (size + kLanes - 1) / kLanes * kLanes;
}

HWY_INLINE void normalise_row(const float* x, std::int64_t d, float factor, float* y) {
  const float scale = factor / std::sqrt(sum_of_squares(x, d) + kKdaNormEps);
  const Floats s = hn::Set(FloatTag(), scale);
  map(
      d, y, [s](Floats v) HWY_ATTR { return hn::Mul(v, s); }, x);
}

// `buffer` holds 3 * count * whole_vectors(d) floats.
HWY_INLINE HeadTokens head_tokens(const KdaArgs& args, std::int64_t head, std::int64_t row,
                                  std::int64_t count, float* buffer) {
  const std::int64_t d = args.head_dim;
  const std::int64_t inner = args.heads * d;
  const std::int64_t stride = whole_vectors(d);
  const float query_scale = 1.0f / std::sqrt(static_cast<float>(d));
  float* q = buffer;
  float* k = q + count * stride;
  float* decay = k + count * stride;
  for (std::int64_t t = 0; t < count; ++t) {
    const std::int64_t at = t * stride;
    const float* x = args.qkv.row(row + t) + head * d;
    const float* g = args.decay.row(row + t) + head * d;
    normalise_row(x, d, query_scale, q + at);
    normalise_row(x + inner, d, 1.0f, k + at);
    map(
        d, decay + at, [](Floats v) HWY_ATTR { return exp(v); }, g);
    for (float* copy : {q, k, decay}) std::fill(copy + at + d, copy + at + stride, 0.0f);
  }
  const auto rows = [&](auto view, std::int64_t first, std::int64_t columns) {
    return decltype(view){view.row(row) + first, count, columns, view.stride};
  };
  return {count,
          stride,
          q,
          k,
          decay,
          rows(args.qkv, 2 * inner + head * d, d),
          rows(args.beta, head, 1),
          rows(args.o, head * d, d)};
}

// Kv vectors of value columns of one head's state, or (kTail) the first `part` lanes of the last
// one. Value columns do not touch each other, so a block of them runs through all tokens while it
// stays in the first-level cache.
template <int Kv, bool kTail>
struct ValueBlock {
  float* state;  // first column of the block; rows of d
  std::int64_t d;
  std::int64_t part;

  // S <- diag(decay) S; returns S^T k.
  HWY_INLINE void predict(const float* decay, const float* k, Floats (&prediction)[Kv]) const {
    const FloatTag tag;
    zero(prediction);
    float* row = state;
    for (std::int64_t i = 0; i < d; ++i, row += d) {
      const Floats a = hn::Set(tag, decay[i]);
      const Floats key = hn::Set(tag, k[i]);
      TANDEM_UNROLL
      for (int c = 0; c < Kv; ++c) {
        const Floats s = hn::Mul(load_part<kTail>(row + c * kLanes, part), a);
        prediction[c] = hn::MulAdd(key, s, prediction[c]);
        store_part<kTail>(s, row + c * kLanes, part);
      }
    }
  }

  // S <- S + k e^T; o = S^T q. With kNext also predicts for the next token in the same pass over S:
  // the same operations on each element in the same order as predict would do them.
  template <bool kNext>
  HWY_INLINE void update(const float* k, const float* q, const Floats (&e)[Kv],
                         const float* next_decay, const float* next_k, Floats (&o)[Kv],
                         Floats (&prediction)[Kv]) const {
    const FloatTag tag;
    zero(o);
    zero(prediction);
    float* row = state;
    for (std::int64_t i = 0; i < d; ++i, row += d) {
      const Floats key = hn::Set(tag, k[i]);
      const Floats query = hn::Set(tag, q[i]);
      TANDEM_UNROLL
      for (int c = 0; c < Kv; ++c) {
        Floats s = hn::MulAdd(key, e[c], load_part<kTail>(row + c * kLanes, part));
        o[c] = hn::MulAdd(query, s, o[c]);
        if constexpr (kNext) {
          s = hn::Mul(s, hn::Set(tag, next_decay[i]));
          prediction[c] = hn::MulAdd(hn::Set(tag, next_k[i]), s, prediction[c]);
        }
        store_part<kTail>(s, row + c * kLanes, part);
      }
    }
  }

  // `column`: of the block within the head.
  HWY_INLINE void run(const HeadTokens& tokens, std::int64_t column) const {
    Floats prediction[Kv];
    predict(tokens.decay, tokens.k, prediction);
    for (std::int64_t t = 0; t < tokens.count; ++t) {
      const Floats beta = hn::Set(FloatTag(), *tokens.beta.row(t));
      const float* v = tokens.v.row(t) + column;
      Floats e[Kv];
      TANDEM_UNROLL
      for (int c = 0; c < Kv; ++c) {
        e[c] = hn::Mul(beta, hn::Sub(load_part<kTail>(v + c * kLanes, part), prediction[c]));
      }
      const float* q = tokens.q + t * tokens.stride;
      const float* k = tokens.k + t * tokens.stride;
      Floats o[Kv];
      if (t + 1 < tokens.count) {
        update<true>(k, q, e, tokens.decay + (t + 1) * tokens.stride, k + tokens.stride, o,
                     prediction);
      } else {
        update<false>(k, q, e, nullptr, nullptr, o, prediction);
      }
      TANDEM_UNROLL
      for (int c = 0; c < Kv; ++c) {
        store_part<kTail>(o[c], tokens.o.row(t) + column + c * kLanes, part);
      }
    }
  }

  static HWY_INLINE void zero(Floats (&v)[Kv]) {
    TANDEM_UNROLL
    for (int c = 0; c < Kv; ++c) v[c] = hn::Zero(FloatTag());
  }
};

// Tokens prepared at a time: their keys, queries and decays stay in the first-level cache.
inline constexpr std::int64_t kRecurrentTokens = 8;

// The recurrence over rows [row, row + rows) of one head. `buffer` holds
// 3 * kRecurrentTokens * whole_vectors(d) floats.
HWY_INLINE void recurrent_head(const KdaArgs& args, std::int64_t head, std::int64_t row,
                               std::int64_t rows, float* state, float* buffer) {
  constexpr int kVectors = 4;
  const std::int64_t d = args.head_dim;
  for (std::int64_t first = 0; first < rows; first += kRecurrentTokens) {
    const std::int64_t count = std::min(kRecurrentTokens, rows - first);
    const HeadTokens tokens = head_tokens(args, head, row + first, count, buffer);
    std::int64_t c = 0;
    for (; c + kVectors * kLanes <= d; c += kVectors * kLanes) {
      ValueBlock<kVectors, false>{state + c, d, kLanes}.run(tokens, c);
    }
    for (; c + kLanes <= d; c += kLanes) ValueBlock<1, false>{state + c, d, kLanes}.run(tokens, c);
    if (c < d) ValueBlock<1, true>{state + c, d, d - c}.run(tokens, c);
  }
}

// body(sequence, head) for every pair, in parallel.
template <class Body>
HWY_INLINE void for_heads(const KdaArgs& args, ThreadTeam& team, const Body& body) {
  const double mean_rows = static_cast<double>(args.o.rows) /
                           static_cast<double>(std::max<std::int64_t>(args.sequence_count, 1));
  const double state_elements = static_cast<double>(args.head_dim * args.head_dim);
  parallel(team, args.sequence_count * args.heads, grain_for(mean_rows * state_elements * 0.25),
           [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
             for (std::int64_t task = begin; task < end; ++task) {
               body(args.sequences[task / args.heads], task % args.heads);
             }
           });
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
