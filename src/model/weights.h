// The weights of a model, in the shape the forward pass reads them.
//
// Matrices point into memory-mapped files (or into `storage`, where a file's dtype or alignment
// does not serve), or after tile_weights into `tiles`; small vectors are widened to fp32 and owned
// here. Immutable after loading, shared by readers.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <variant>
#include <vector>

#include "base/status.h"
#include "kernels/ops/moe.h"
#include "model/checkpoint.h"
#include "model/model_spec.h"
#include "tensor/aligned_buffer.h"
#include "tensor/huge_buffer.h"
#include "tensor/tensor_view.h"

namespace tandem {

using WeightVector = AlignedBuffer<float>;

struct KdaWeights {
  WeightMatrix q, k, v;               // [inner, hidden]
  WeightVector conv;                  // [width, 3 * inner], q | k | v; transposed from the file
  WeightMatrix decay_down, decay_up;  // f_a [head_dim, hidden], f_b [inner, head_dim]
  WeightMatrix beta;                  // b [heads, hidden]
  WeightVector dt_bias;               // [inner]
  WeightVector head_rate;             // [heads] exp(A_log)
  WeightMatrix gate;                  // full rank g [inner, hidden], or ...
  WeightMatrix gate_down, gate_up;    // ... g_a [head_dim, hidden], g_b [inner, head_dim]
  WeightVector out_norm;              // [head_dim]
  WeightMatrix out;                   // o [hidden, inner]
};

struct MlaWeights {
  WeightMatrix q;             // direct: [heads*(nope+pe), hidden], or ...
  WeightMatrix q_down, q_up;  // ... q_a [q_rank, hidden], q_b [heads*(nope+pe), q_rank]
  WeightVector q_norm;        // [q_rank]
  WeightMatrix kv_down;       // kv_a [latent+pe, hidden]
  WeightVector kv_norm;       // [latent]
  WeightMatrix kv_up;         // kv_b [heads*(nope+value), latent]
  WeightMatrix gate;          // g [heads*value, hidden] if the spec has an output gate
  WeightMatrix out;           // o [hidden, heads*value]
};

struct FfnWeights {
  WeightMatrix gate, up;  // [intermediate, hidden]
  WeightMatrix down;      // [hidden, intermediate]
};

struct MoeWeights {
  WeightMatrix router;       // [experts, hidden]
  WeightVector router_bias;  // [experts]
  WeightMatrix latent_down,
      latent_up;             // [latent, hidden], [hidden, latent] if the spec has a latent width
  WeightVector latent_norm;  // [latent] if the spec has the norm
  std::vector<ExpertWeights> experts;
  FfnWeights shared;
};

// query = norm weight * projection, fp32 (residual_mix.h); empty without Attention Residuals.
struct LayerWeights {
  WeightVector attention_mix, ffn_mix;  // [hidden]
  WeightVector attention_norm;          // input_layernorm [hidden]
  WeightVector ffn_norm;                // post_attention_layernorm [hidden]
  std::variant<KdaWeights, MlaWeights> attention;
  std::variant<FfnWeights, MoeWeights> ffn;
};

struct ModelWeights {
  WeightMatrix embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  WeightVector output_mix;  // [hidden], empty without Attention Residuals
  WeightVector final_norm;  // [hidden]
  WeightMatrix head;        // [vocab, hidden]

  Checkpoint checkpoint;                      // keeps the mapped files alive
  std::vector<AlignedBuffer<float>> storage;  // matrices widened from F16, or realigned
  HugeBuffer tiles;                           // weight_tiling.h
};

// Binds every tensor that `spec` asks for, checking name, shape and dtype; MXFP4 scale bytes are
// scanned for the NaN code. A tensor of the text model that nothing reads is an error too: a spec
// that misses a part of the model would otherwise answer fluently and wrongly. Vision tensors are
// set aside with one log line. `progress`, if set, is called with the share done, 0..1.
struct LoadOptions {
  void (*progress)(double share, void* context) = nullptr;
  void* progress_context = nullptr;
  // Weights that take more than this stay in their files, where steps are slower.
  std::int64_t memory_bytes = std::numeric_limits<std::int64_t>::max();
};
Result<ModelWeights> load_weights(const ModelSpec& spec, Checkpoint checkpoint,
                                  const LoadOptions& options = {});

}  // namespace tandem
