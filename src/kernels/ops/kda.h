// Kimi Delta Attention: short convolution, gates, and the delta-rule recurrence.
// Mathematics: Kimi Linear (arXiv 2510.26692); the chunkwise form is the WY representation given
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tensor/tensor_view.h"

namespace tandem {

// The rows of one request inside a step's activations, with what KDA keeps of it for one layer.
struct KdaSequence {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;        // >= 1
  float* state = nullptr;       // [heads, K, V] fp32, key-major; read and overwritten
  std::byte* window = nullptr;  // [width-1, channels] of the window's dtype, oldest first; likewise
};

// Depthwise causal convolution of the q, k and v projections, then SiLU.
//   y_t[c] = silu(sum_j weight[j][c] * x_{t-width+1+j}[c]),  j = 0..width-1; zeros before the first
//   token
// With window_dtype kBF16 every input is rounded to bf16 before use, so that the result does not
// depend on where a chunk was cut. y must not alias x.
struct ShortConvArgs {
  ConstActivations x;             // [T, channels], channels = 3 * heads * d, order q | k | v
  const float* weight = nullptr;  // [width, channels], the last row multiplies the current token
  std::int64_t width = 0;
  DType window_dtype = DType::kF32;  // kF32 or kBF16
  const KdaSequence* sequences = nullptr;
  std::int64_t sequence_count = 0;
  Activations y;  // [T, channels]
};

// Log decay per key channel, and beta per head, from their logits; both in place.
//   u = decay + dt_bias;  bounded:   g = lower_bound * sigmoid(a_h * u)
//                         unbounded: g = -a_h * softplus(u)             with a_h = exp(A_log[h])
//   beta = sigmoid(beta)
struct KdaGatesArgs {
  Activations decay;                      // [T, heads*d] logits in, g <= 0 out
  Activations beta;                       // [T, heads] logits in, (0,1) out
  const float* dt_bias = nullptr;         // [heads*d]
  const float* head_rate = nullptr;       // [heads] a_h
  std::optional<float> lower_bound = {};  // -5 for K3, absent for Kimi Linear
  std::int64_t heads = 0;
};

// The recurrence, per head, with q and k L2-normalised here (eps 1e-6 on the sum of squares) and q
// scaled by d^-1/2:
//   S <- diag(exp(g)) S;  e = v - S^T k;  S <- S + k (beta e)^T;  o = S^T q
// kda_recurrent runs it token by token in fp32: its result does not depend on how tokens are cut
// into steps. kda_chunked computes the same in chunks (fp32, forward substitution) and rounds
// differently.
struct KdaArgs {
  ConstActivations qkv;    // [T, 3*heads*d] after the convolution, order q | k | v
  ConstActivations decay;  // [T, heads*d] g
  ConstActivations beta;   // [T, heads]
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;  // d = K = V
  const KdaSequence* sequences = nullptr;
  std::int64_t sequence_count = 0;
  Activations o;  // [T, heads*d]
};

inline constexpr float kKdaNormEps = 1e-6f;

}  // namespace tandem
