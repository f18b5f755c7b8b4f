// The delta rule by chunks of tokens: the state is read and written once a chunk.
//
// With G_i the decay accumulated from the chunk's start to token i (spec: chunkwise form),
//   A_ij = beta_i k_i . (exp(G_i - G_j) k_j), j < i;   P_ij = q_i . (exp(G_i - G_j) k_j), j <= i
//   (I + A) D = diag(beta) (V - (exp(G) K) S);   O = (exp(G) Q) S + P D
//   S <- diag(exp(G_C)) S + (exp(G_C - G) K)^T D
// exp(G_i - G_j) is never a quotient of exponentials, which would overflow, but a running product
// of the tokens' own decays, each in [0, 1]: any decay is safe, and -infinity clears a channel.
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/kda_tokens-inl.h"
#include "kernels/cpu/weighted-inl.h"

#if defined(TANDEM_KERNELS_CPU_KDA_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_CPU_KDA_CHUNK_INL_H_
#undef TANDEM_KERNELS_CPU_KDA_CHUNK_INL_H_
#else
#define TANDEM_KERNELS_CPU_KDA_CHUNK_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::HWY_NAMESPACE {

inline constexpr std::int64_t kChunk = 16;
// With fewer tokens the recurrence is as fast.
inline constexpr std::int64_t kMinChunk = 4;

// What a chunk of one head needs besides the state; everything but the state's own columns.
struct ChunkFactors {
  HeadTokens tokens;        // k becomes exp(G_C - G_j) k_j
  float* from_state;        // [2 * count, d] in rows of tokens.stride: exp(G) K, then exp(G) Q
  float* decay;             // [d] exp(G_C)
  float a[kChunk][kChunk];  // A, strictly lower
  float p[kChunk][kChunk];  // P, lower
};

constexpr std::int64_t chunk_buffer_floats(std::int64_t stride) {
  return (3 * kChunk + 2 * kChunk + 1) * stride;
}

// keys[j] *= decay; a[j] = k . keys[j]; p[j] = q . keys[j], for Kj keys in rows of `stride`.
template <int Kj>
HWY_INLINE void decay_keys(float* keys, std::int64_t stride, const float* decay, const float* k,
                           const float* q, float* a, float* p) {
  Floats sum[2][Kj];
  clear(sum);
  for (std::int64_t i = 0; i < stride; i += kLanes) {
    const Floats factor = load(decay + i), key = load(k + i), query = load(q + i);
    TANDEM_UNROLL
    for (int j = 0; j < Kj; ++j) {
      const Floats decayed = hn::Mul(load(keys + j * stride + i), factor);
      store(decayed, keys + j * stride + i);
      sum[0][j] = hn::MulAdd(key, decayed, sum[0][j]);
      sum[1][j] = hn::MulAdd(query, decayed, sum[1][j]);
    }
  }
  float sums[2][Kj];
  store_lane_sums(sum, sums[0], Kj);
  std::copy_n(sums[0], Kj, a);
  std::copy_n(sums[1], Kj, p);
}

// Token i joins the chunk: older keys decay and meet it.
HWY_INLINE void add_token(ChunkFactors& chunk, std::int64_t i) {
  const HeadTokens& tokens = chunk.tokens;
  const std::int64_t stride = tokens.stride;
  const float* q = tokens.q + i * stride;
  const float* k = tokens.k + i * stride;
  const float* decay = tokens.decay + i * stride;
  const auto times = [](Floats x, Floats y) HWY_ATTR { return hn::Mul(x, y); };
  map(stride, chunk.decay, times, chunk.decay, decay);
  map(stride, chunk.from_state + i * stride, times, k, chunk.decay);
  map(stride, chunk.from_state + (tokens.count + i) * stride, times, q, chunk.decay);

  std::int64_t j = 0;
  for (; j + 4 <= i; j += 4) {
    decay_keys<4>(tokens.k + j * stride, stride, decay, k, q, chunk.a[i] + j, chunk.p[i] + j);
  }
  for (; j < i; ++j) {
    decay_keys<1>(tokens.k + j * stride, stride, decay, k, q, chunk.a[i] + j, chunk.p[i] + j);
  }
  for (j = 0; j < i; ++j) chunk.a[i][j] *= *tokens.beta.row(i);
  chunk.p[i][i] = dot(q, k, stride);
}

// Value columns pass in blocks of so many vectors, so that the state's columns stay in the
// first-level cache between the two products.
inline constexpr int kBlockVectors = 4;
inline constexpr std::int64_t kBlockColumns = kBlockVectors * kLanes;

struct BlockRows {
  HWY_ALIGN float from_state[2 * kChunk][kBlockColumns];
  HWY_ALIGN float d[kChunk][kBlockColumns];
};

// D by forward substitution, then O; value columns [column, column + width).
HWY_INLINE void solve(const ChunkFactors& chunk, std::int64_t column, std::int64_t width,
                      BlockRows& block) {
  const FloatTag tag;
  const HeadTokens& tokens = chunk.tokens;
  for (std::int64_t i = 0; i < tokens.count; ++i) {
    const Floats beta = hn::Set(tag, *tokens.beta.row(i));
    for (std::int64_t c = 0; c < width; c += kLanes) {
      const std::int64_t part = std::min(kLanes, width - c);
      const Floats v = load_up_to(tokens.v.row(i) + column + c, part);
      Floats d = hn::Mul(beta, hn::Sub(v, load(block.from_state[i] + c)));
      for (std::int64_t j = 0; j < i; ++j) {
        d = hn::NegMulAdd(hn::Set(tag, chunk.a[i][j]), load(block.d[j] + c), d);
      }
      store(d, block.d[i] + c);
      Floats o = load(block.from_state[tokens.count + i] + c);
      for (std::int64_t j = 0; j <= i; ++j) {
        o = hn::MulAdd(hn::Set(tag, chunk.p[i][j]), load(block.d[j] + c), o);
      }
      store_up_to(o, tokens.o.row(i) + column + c, part);
    }
  }
}

// Value columns [column, column + width) of a head's state through one chunk.
HWY_INLINE void run_block(const ChunkFactors& chunk, float* state, std::int64_t d,
                          std::int64_t column, std::int64_t width) {
  const std::int64_t count = chunk.tokens.count;
  const std::int64_t stride = chunk.tokens.stride;
  const Activations columns = {state + column, d, width, d};
  BlockRows block = {};
  weighted_rows<2>(Dense<float>{columns.data, d, d}, Factors{chunk.from_state, stride, 1},
                   Activations{block.from_state[0], 2 * count, width, kBlockColumns});
  solve(chunk, column, width, block);
  for (std::int64_t i = 0; i < d; ++i) {
    const Floats decay = hn::Set(FloatTag(), chunk.decay[i]);
    float* row = columns.row(i);
    map(
        width, row, [decay](Floats s) HWY_ATTR { return hn::Mul(s, decay); }, row);
  }
  weighted_rows<2>(Dense<float>{block.d[0], count, kBlockColumns},
                   Factors{chunk.tokens.k, 1, stride}, columns);
}

HWY_INLINE void run_chunk(const KdaArgs& args, std::int64_t head, std::int64_t row,
                          std::int64_t count, float* state, float* buffer) {
  const std::int64_t d = args.head_dim;
  ChunkFactors chunk = {};
  chunk.tokens = head_tokens(args, head, row, count, buffer);
  chunk.from_state = buffer + 3 * kChunk * chunk.tokens.stride;
  chunk.decay = chunk.from_state + 2 * kChunk * chunk.tokens.stride;
  std::fill_n(chunk.decay, chunk.tokens.stride, 1.0f);
  for (std::int64_t i = 0; i < count; ++i) add_token(chunk, i);
  for (std::int64_t c = 0; c < d; c += kBlockColumns) {
    run_block(chunk, state, d, c, std::min(kBlockColumns, d - c));
  }
}

}  // namespace tandem::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
