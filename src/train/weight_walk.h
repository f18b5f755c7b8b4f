// The weights of a loaded model with their names in a checkpoint.
#pragma once

#include <fmt/core.h>

#include <string>
#include <variant>

#include "model/model_spec.h"
#include "model/weights.h"

namespace tandem::train {

// Calls on_matrix(path, WeightMatrix&) and on_vector(path, WeightVector&) for every weight that the
// specification has, in the order of the layers. `path` is the module's, without ".weight"; the
// three convolutions are one vector, "conv1d", and a residual mix is its query. Weights is
// ModelWeights or const ModelWeights.
//
// The router's correction bias is among the vectors, as "gate.e_score_correction_bias".
template <typename Weights, typename OnMatrix, typename OnVector>
class WeightWalk {
 public:
  WeightWalk(const ModelSpec& spec, Weights& weights, const OnMatrix& on_matrix,
             const OnVector& on_vector)
      : on_matrix_(on_matrix), on_vector_(on_vector) {
    const std::string at = spec.tensor_prefix + "model.";
    on_matrix(at + "embed_tokens", weights.embedding);
    for (std::size_t l = 0; l < spec.layers.size(); ++l) {
      layer(fmt::format("{}layers.{}.", at, l), spec, spec.layers[l], weights.layers[l]);
    }
    if (spec.residual_block) on_vector(at + "output_attn_res", weights.output_mix);
    on_vector(at + "norm", weights.final_norm);
    on_matrix(spec.tensor_prefix + "lm_head", weights.head);
  }

 private:
  template <typename W>
  void layer(const std::string& at, const ModelSpec& spec, const LayerSpec& layer, W& w) {
    on_vector_(at + "input_layernorm", w.attention_norm);
    on_vector_(at + "post_attention_layernorm", w.ffn_norm);
    if (spec.residual_block) {
      on_vector_(at + "self_attention_res", w.attention_mix);
      on_vector_(at + "mlp_res", w.ffn_mix);
    }
    if (const auto* kda_spec = std::get_if<KdaSpec>(&layer.attention)) {
      kda(at + "self_attn.", *kda_spec, std::get<KdaWeights>(w.attention));
    } else {
      mla(at + "self_attn.", std::get<MlaSpec>(layer.attention), std::get<MlaWeights>(w.attention));
    }
    if (const auto* moe_spec = std::get_if<MoeSpec>(&layer.ffn)) {
      moe(at + "block_sparse_moe.", *moe_spec, std::get<MoeWeights>(w.ffn));
    } else {
      ffn(at + "mlp.", std::get<FfnWeights>(w.ffn));
    }
  }

  template <typename W>
  void kda(const std::string& at, const KdaSpec& spec, W& w) {
    on_matrix_(at + "q_proj", w.q);
    on_matrix_(at + "k_proj", w.k);
    on_matrix_(at + "v_proj", w.v);
    on_vector_(at + "conv1d", w.conv);
    on_matrix_(at + "f_a_proj", w.decay_down);
    on_matrix_(at + "f_b_proj", w.decay_up);
    on_matrix_(at + "b_proj", w.beta);
    on_vector_(at + "A_log", w.head_rate);
    on_vector_(at + "dt_bias", w.dt_bias);
    if (spec.full_rank_gate) {
      on_matrix_(at + "g_proj", w.gate);
    } else {
      on_matrix_(at + "g_a_proj", w.gate_down);
      on_matrix_(at + "g_b_proj", w.gate_up);
    }
    on_vector_(at + "o_norm", w.out_norm);
    on_matrix_(at + "o_proj", w.out);
  }

  template <typename W>
  void mla(const std::string& at, const MlaSpec& spec, W& w) {
    if (spec.q_rank) {
      on_matrix_(at + "q_a_proj", w.q_down);
      on_vector_(at + "q_a_layernorm", w.q_norm);
      on_matrix_(at + "q_b_proj", w.q_up);
    } else {
      on_matrix_(at + "q_proj", w.q);
    }
    on_matrix_(at + "kv_a_proj_with_mqa", w.kv_down);
    on_vector_(at + "kv_a_layernorm", w.kv_norm);
    on_matrix_(at + "kv_b_proj", w.kv_up);
    if (spec.output_gate) on_matrix_(at + "g_proj", w.gate);
    on_matrix_(at + "o_proj", w.out);
  }

  template <typename W>
  void ffn(const std::string& at, W& w) {
    on_matrix_(at + "gate_proj", w.gate);
    on_matrix_(at + "up_proj", w.up);
    on_matrix_(at + "down_proj", w.down);
  }

  template <typename W>
  void moe(const std::string& at, const MoeSpec& spec, W& w) {
    on_matrix_(at + "gate", w.router);
    on_vector_(at + "gate.e_score_correction_bias", w.router_bias);
    if (spec.latent) {
      on_matrix_(at + "routed_expert_down_proj", w.latent_down);
      on_matrix_(at + "routed_expert_up_proj", w.latent_up);
      if (spec.latent_norm) on_vector_(at + "routed_expert_norm", w.latent_norm);
    }
    for (std::size_t e = 0; e < w.experts.size(); ++e) {
      const std::string expert = fmt::format("{}experts.{}.", at, e);
      on_matrix_(expert + "w1", w.experts[e].gate);
      on_matrix_(expert + "w3", w.experts[e].up);
      on_matrix_(expert + "w2", w.experts[e].down);
    }
    ffn(at + "shared_experts.", w.shared);
  }

  const OnMatrix& on_matrix_;
  const OnVector& on_vector_;
};

template <typename Weights, typename OnMatrix, typename OnVector>
void walk_weights(const ModelSpec& spec, Weights& weights, const OnMatrix& on_matrix,
                  const OnVector& on_vector) {
  WeightWalk<Weights, OnMatrix, OnVector>(spec, weights, on_matrix, on_vector);
}

}  // namespace tandem::train
