// Attention Residuals: one softmax over the banked residual streams and the current one, per token.
#pragma once

#include <cstdint>

#include "tensor/tensor_view.h"

namespace tandem {

// Rows v_0..v_{n-1} are the bank, v_n is the stream:
//   s_j = rsqrt(mean_d(v_j^2) + eps) * sum_d v_j[d] * query[d];  a = softmax(s);  y = sum_j a_j v_j
// with query = norm weight * projection, fp32. No temperature; raw rows are mixed, not normalised
// ones. y must not alias any row: the stream is still needed after the mix.
struct ResidualMixArgs {
  const ConstActivations* bank = nullptr;  // [bank_rows] views of [T, H]; may be 0 rows
  std::int64_t bank_rows = 0;
  ConstActivations stream;       // [T, H]
  const float* query = nullptr;  // [H]
  float eps = 0;
  Activations y;  // [T, H]
};

// The largest bank a kernel supports (K3 has 8 rows).
inline constexpr std::int64_t kMaxBankRows = 63;

}  // namespace tandem
