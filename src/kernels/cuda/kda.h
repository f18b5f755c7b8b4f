// KDA's decode step and the replay of speculated tokens, on one device. Head dimension 128,
// convolution width 4. Contracts of the mathematics: kernels/ops/kda.h, kernels/ops/norm.h.
//
// All pointers are device memory. Heads' states are [128, 128] fp32, key-major, 64 KiB each and
// aligned to 128 bytes; every other array is aligned to its element. A head of a request is
// computed by one thread block in a fixed order: its bits depend on nothing else in the launch.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "tensor/cuda/stream.h"
#include "tensor/dtype.h"

namespace tandem::cuda {

inline constexpr int kKdaHeadDim = 128;
inline constexpr int kKdaConvWidth = 4;

// One token of every request, one launch: convolution and its window, SiLU, gates, L2 norms, delta
// rule, gated RMS norm. inner = heads * 128. A request may stand in a batch once only.
struct KdaDecodeArgs {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  const BF16* qkv = nullptr;    // [batch, 3*inner] projections before the convolution, q | k | v
  std::int64_t qkv_stride = 0;  // elements between rows, here and below
  const BF16* gate = nullptr;   // [batch, inner] logits of the output gate
  std::int64_t gate_stride = 0;
  const BF16* decay = nullptr;  // [batch, inner] logits
  std::int64_t decay_stride = 0;
  const BF16* beta = nullptr;  // [batch, heads] logits
  std::int64_t beta_stride = 0;
  const float* conv_weight = nullptr;  // [4, 3*inner], the last row multiplies the current token
  const float* dt_bias = nullptr;      // [inner]
  const float* head_rate = nullptr;    // [heads]
  const float* norm_weight = nullptr;  // [128]
  float lower_bound = 0;               // < 0: the bounded gate; 0: the unbounded one
  float eps = 0;
  float* const* states = nullptr;  // [batch] -> [heads, 128, 128]; read and overwritten
  BF16* const* windows = nullptr;  // [batch] -> [3, 3*inner], oldest first; likewise
  BF16* out = nullptr;             // [batch, inner]
};
Result<void> kda_decode(const KdaDecodeArgs& args, CudaStreamHandle stream);

// One speculated token of one head after convolution, norms and gates: what replaying it needs.
struct KdaRecord {
  BF16 value[kKdaHeadDim];
  BF16 key[kKdaHeadDim];         // L2-normalised
  float log_decay[kKdaHeadDim];  // <= 0
  float beta;
};
static_assert(sizeof(KdaRecord) == 1028);

// Applies each request's accepted records, oldest first, to all its states: one launch. A request
// without records keeps its bits.
struct KdaFoldArgs {
  std::int64_t batch = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t window = 0;                    // records a head has room for
  const std::int32_t* counts = nullptr;       // [batch] accepted records, 0..window
  const KdaRecord* const* records = nullptr;  // [batch] -> [layers, heads, window]
  float* const* states = nullptr;             // [batch] -> [layers, heads, 128, 128]
};
Result<void> kda_fold(const KdaFoldArgs& args, CudaStreamHandle stream);

}  // namespace tandem::cuda
