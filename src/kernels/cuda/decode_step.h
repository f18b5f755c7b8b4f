// The small steps of a decode step beside attention: products with few rows, routing, the residual
// mix. All pointers are device memory; rows' results depend on nothing else in the launch.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "tensor/cuda/stream.h"
#include "tensor/dtype.h"

namespace tandem::cuda {

// y = x W^T for 1..8 rows. inputs: a multiple of 256; x, w and their rows are aligned to 16 bytes.
// An output is summed in fp32 by one warp: lane l takes elements 8l + 256i.. in ascending order,
// then a butterfly over lanes.
struct SkinnyLinearArgs {
  std::int64_t rows = 0;  // 1..8
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  const BF16* x = nullptr;  // [rows, inputs]
  const BF16* w =
      nullptr;         // [outputs, inputs]; several weights of one input stand one after another
  float* y = nullptr;  // [rows, outputs]
};
Result<void> skinny_linear(const SkinnyLinearArgs& args, CudaStreamHandle stream);

// The contract of RouterArgs in kernels/ops/moe.h with one group, renormalised, scores in fp32: the
// choice between scores closer than fp32 tells apart may differ. A NaN score counts as the least.
inline constexpr int kMaxRoutedExperts = 1024;
inline constexpr int kMaxTopK = 32;
struct RouteArgs {
  std::int64_t rows = 0;
  std::int64_t experts = 0;       // top_k..1024
  std::int64_t top_k = 0;         // 1..32
  const float* logits = nullptr;  // [rows, experts]
  const float* bias = nullptr;    // [experts]
  float scaling = 1;
  std::int32_t* ids = nullptr;  // [rows, top_k], ascending
  float* weights = nullptr;     // [rows, top_k]
};
Result<void> route(const RouteArgs& args, CudaStreamHandle stream);

// kernels/ops/residual_mix.h, then RMS norm, in one launch; nothing in between is rounded.
//   y = m * rsqrt(mean(m^2) + eps) * norm_weight with m the mix
// hidden: a multiple of 8, at most 8192; every row is aligned to 16 bytes.
inline constexpr int kMaxMixRows = 9;
struct MixNormArgs {
  std::int64_t rows = 0;
  std::int64_t hidden = 0;
  std::int64_t streams = 0;              // 1..9; 1 mixes nothing and is the plain norm
  const BF16* stream[kMaxMixRows] = {};  // [rows, hidden] each
  const float* query = nullptr;          // [hidden]
  float mix_eps = 0;
  const float* norm_weight = nullptr;  // [hidden]
  float norm_eps = 0;
  BF16* y = nullptr;  // [rows, hidden], may not alias a stream
};
Result<void> mix_norm(const MixNormArgs& args, CudaStreamHandle stream);

}  // namespace tandem::cuda
