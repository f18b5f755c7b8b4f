// A model as data: its dimensions and one LayerSpec a layer, read from a configuration.
//
// Everything that differs between Kimi Linear and Kimi K3 is a field here. The forward pass has no
// notion of a family: it walks the list of layers. Plain values, no ownership, freely copied.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "kernels/ops/mla.h"
#include "kernels/ops/norm.h"

namespace tandem {

enum class ModelFamily { kKimiLinear, kKimiK3 };

// Kimi Delta Attention: a recurrent state of heads * head_dim^2 floats a request.
struct KdaSpec {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;  // of keys and of values
  std::int64_t conv_width = 0;
  std::optional<float> decay_lower_bound;  // bounded decay if present, softplus decay if not
  bool full_rank_gate = false;             // output gate: one matrix, or two of rank head_dim

  std::int64_t inner() const { return heads * head_dim; }
};

// Multi-head latent attention: one latent row a token.
struct MlaSpec {
  MlaDims dims;
  std::optional<std::int64_t> q_rank;  // query compression, if any
  bool output_gate = false;

  std::int64_t row_elements() const { return dims.latent + dims.pe; }
};

struct DenseFfnSpec {
  std::int64_t intermediate = 0;
};

struct MoeSpec {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t intermediate = 0;         // of one expert
  std::int64_t shared_intermediate = 0;  // all shared experts fused into one block
  std::optional<std::int64_t> latent;    // experts work in this width, if not in the hidden one
  bool latent_norm = false;              // RMSNorm on the combined latent
  std::int64_t groups = 1;
  std::int64_t top_groups = 1;
  bool renormalize = true;
  float scaling = 1;
  // Vendor code of Kimi Linear adds the selection bias to the weights too; off unless a
  // configuration asks for it with `router_bias_in_weights`.
  bool bias_in_weights = false;
};

struct LayerSpec {
  std::variant<KdaSpec, MlaSpec> attention;
  std::variant<DenseFfnSpec, MoeSpec> ffn;
  // With Attention Residuals: this layer banks the stream and starts a new one from its attention
  // output.
  bool starts_block = false;

  bool is_kda() const { return std::holds_alternative<KdaSpec>(attention); }
  bool is_moe() const { return std::holds_alternative<MoeSpec>(ffn); }
};

struct ModelSpec {
  ModelFamily family = ModelFamily::kKimiLinear;
  std::string architecture;   // as the configuration names it
  std::string tensor_prefix;  // before every text tensor's name, e.g. "language_model."

  std::int64_t vocab_size = 0;
  std::int64_t hidden = 0;
  std::int64_t context_length = 0;  // tokens, prompt and answer together
  float norm_eps = 0;               // hidden-width norms, KDA output norm, latent MoE norm
  float latent_norm_eps = 1e-6f;    // MLA's two latent norms (not rms_norm_eps)
  ActivationSpec activation;
  bool tied_embeddings = false;
  bool packed_experts = false;  // announced; what is packed, a checkpoint's tensors decide
  std::optional<std::int64_t>
      residual_block;  // Attention Residuals: layers a block; plain stream if absent

  TokenId bos_id = -1;
  TokenId eos_id = -1;
  TokenId pad_id = -1;

  std::vector<LayerSpec> layers;

  std::int64_t kda_layers() const;
  std::int64_t mla_layers() const;
  // Rows of the bank after the last layer.
  std::int64_t bank_rows() const;
};

}  // namespace tandem
