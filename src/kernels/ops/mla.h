// Multi-head latent attention without positions, in absorbed form over paged latent rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor_view.h"

namespace tandem {

// The latent rows of one request in one layer. A row is [c: latent | k_pe: pe] of `dtype`.
struct PagedRows {
  std::byte* const* pages = nullptr;  // page p holds tokens [p*page_tokens, (p+1)*page_tokens)
  std::int64_t page_tokens = 0;
  std::int64_t layer_offset_bytes = 0;  // where this layer's rows start inside a page

  std::byte* row(std::int64_t token, std::int64_t row_bytes) const {
    return pages[token / page_tokens] + layer_offset_bytes + (token % page_tokens) * row_bytes;
  }
};

// The rows of one request inside a step's activations: tokens at positions [start, start + rows).
struct MlaSequence {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;   // >= 1
  std::int64_t start = 0;  // latent rows [0, start) are valid
  PagedRows latent;
};

struct MlaDims {
  std::int64_t heads = 0;
  std::int64_t nope = 0;  // per-head query-key width that goes through the latent
  std::int64_t pe = 0;  // per-head query-key width shared by the heads ("rope" part, never rotated)
  std::int64_t value = 0;   // per-head value width
  std::int64_t latent = 0;  // width of c
};

// Writes this step's latent rows: c = rms_norm(compressed[:latent]), k_pe = compressed[latent:] as
// is.
struct MlaStoreArgs {
  ConstActivations compressed;         // [T, latent + pe]
  const float* norm_weight = nullptr;  // [latent]
  float eps = 0;
  MlaDims dims;
  DType row_dtype = DType::kF32;  // kF32 or kBF16
  const MlaSequence* sequences = nullptr;
  std::int64_t sequence_count = 0;
};

// Causal attention over positions [0, start + i] for row i of each sequence; rows must be stored
// already.
//   absorbed query  ql_h = W_UK[h]^T q_nope,h
//   score           s_j = (nope + pe)^-1/2 * (ql_h . c_j + q_pe,h . k_pe,j);  p = softmax(s), fp32
//   context         ctx_h = sum_j p_j c_j;   o_h = W_UV[h] ctx_h
// The order of every sum is fixed by positions: it depends neither on page size, nor on how tokens
// are cut into steps, nor on threads.
struct MlaAttentionArgs {
  ConstActivations q;  // [T, heads*(nope+pe)], per head [nope | pe]
  WeightMatrix kv_b;   // [heads*(nope+value), latent]; per head W_UK [nope], W_UV [value]
  MlaDims dims;
  DType row_dtype = DType::kF32;
  const MlaSequence* sequences = nullptr;
  std::int64_t sequence_count = 0;
  float* workspace = nullptr;  // mla_workspace_floats(T, dims)
  Activations o;               // [T, heads*value]
};

// Absorbed queries and contexts of T rows.
inline std::int64_t mla_workspace_floats(std::int64_t tokens, const MlaDims& dims) {
  return 2 * tokens * dims.heads * dims.latent;
}

}  // namespace tandem
