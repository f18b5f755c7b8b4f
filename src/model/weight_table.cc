#include "model/weight_table.h"

#include <fmt/core.h>

namespace tandem {
namespace {

// The alternative W, which is made anew unless it is there already.
template <class W, class Variant>
W& as(Variant& variant) {
  W* held = std::get_if<W>(&variant);
  return held != nullptr ? *held : variant.template emplace<W>();
}

void visit_kda(const std::string& at, const KdaSpec& spec, std::int64_t hidden, KdaWeights& w,
               WeightVisitor& v) {
  const std::int64_t inner = spec.inner();
  v.matrix(at + "q_proj.weight", inner, hidden, w.q);
  v.matrix(at + "k_proj.weight", inner, hidden, w.k);
  v.matrix(at + "v_proj.weight", inner, hidden, w.v);
  v.conv(at + "q_conv1d.weight", 0, spec, w.conv);
  v.conv(at + "k_conv1d.weight", 1, spec, w.conv);
  v.conv(at + "v_conv1d.weight", 2, spec, w.conv);
  v.matrix(at + "f_a_proj.weight", spec.head_dim, hidden, w.decay_down);
  v.matrix(at + "f_b_proj.weight", inner, spec.head_dim, w.decay_up);
  v.matrix(at + "b_proj.weight", spec.heads, hidden, w.beta);
  v.head_rate(at + "A_log", spec, w.head_rate);
  v.vector(at + "dt_bias", inner, w.dt_bias);
  if (spec.full_rank_gate) {
    v.matrix(at + "g_proj.weight", inner, hidden, w.gate);
  } else {
    v.matrix(at + "g_a_proj.weight", spec.head_dim, hidden, w.gate_down);
    v.matrix(at + "g_b_proj.weight", inner, spec.head_dim, w.gate_up);
  }
  v.vector(at + "o_norm.weight", spec.head_dim, w.out_norm);
  v.matrix(at + "o_proj.weight", hidden, inner, w.out);
}

void visit_mla(const std::string& at, const MlaSpec& spec, std::int64_t hidden, MlaWeights& w,
               WeightVisitor& v) {
  const MlaDims& d = spec.dims;
  const std::int64_t queries = d.heads * (d.nope + d.pe);
  const std::int64_t values = d.heads * d.value;
  if (spec.q_rank) {
    v.matrix(at + "q_a_proj.weight", *spec.q_rank, hidden, w.q_down);
    v.vector(at + "q_a_layernorm.weight", *spec.q_rank, w.q_norm);
    v.matrix(at + "q_b_proj.weight", queries, *spec.q_rank, w.q_up);
  } else {
    v.matrix(at + "q_proj.weight", queries, hidden, w.q);
  }
  v.matrix(at + "kv_a_proj_with_mqa.weight", spec.row_elements(), hidden, w.kv_down);
  v.vector(at + "kv_a_layernorm.weight", d.latent, w.kv_norm);
  v.matrix(at + "kv_b_proj.weight", d.heads * (d.nope + d.value), d.latent, w.kv_up);
  if (spec.output_gate) v.matrix(at + "g_proj.weight", values, hidden, w.gate);
  v.matrix(at + "o_proj.weight", hidden, values, w.out);
}

void visit_ffn(const std::string& at, std::int64_t intermediate, std::int64_t hidden, FfnWeights& w,
               WeightVisitor& v) {
  v.matrix(at + "gate_proj.weight", intermediate, hidden, w.gate);
  v.matrix(at + "up_proj.weight", intermediate, hidden, w.up);
  v.matrix(at + "down_proj.weight", hidden, intermediate, w.down);
}

void visit_moe(const std::string& at, const MoeSpec& spec, std::int64_t hidden, MoeWeights& w,
               WeightVisitor& v) {
  const std::int64_t width = spec.latent.value_or(hidden);
  v.matrix(at + "gate.weight", spec.experts, hidden, w.router);
  v.vector(at + "gate.e_score_correction_bias", spec.experts, w.router_bias);
  if (spec.latent) {
    v.matrix(at + "routed_expert_down_proj.weight", width, hidden, w.latent_down);
    v.matrix(at + "routed_expert_up_proj.weight", hidden, width, w.latent_up);
    if (spec.latent_norm) v.vector(at + "routed_expert_norm.weight", width, w.latent_norm);
  }
  w.experts.resize(static_cast<std::size_t>(spec.experts));
  for (std::size_t e = 0; e < w.experts.size(); ++e) {
    const std::string expert = fmt::format("{}experts.{}.", at, e);
    v.expert(expert + "w1", spec.intermediate, width, w.experts[e].gate);
    v.expert(expert + "w3", spec.intermediate, width, w.experts[e].up);
    v.expert(expert + "w2", width, spec.intermediate, w.experts[e].down);
  }
  visit_ffn(at + "shared_experts.", spec.shared_intermediate, hidden, w.shared, v);
}

void visit_layer(const std::string& at, const LayerSpec& layer, const ModelSpec& spec,
                 LayerWeights& w, WeightVisitor& v) {
  const std::int64_t hidden = spec.hidden;
  v.vector(at + "input_layernorm.weight", hidden, w.attention_norm);
  v.vector(at + "post_attention_layernorm.weight", hidden, w.ffn_norm);
  if (spec.residual_block) {
    v.mix(at + "self_attention_res", hidden, w.attention_mix);
    v.mix(at + "mlp_res", hidden, w.ffn_mix);
  }
  // `self_attn.g_proj` has one name and one shape in both kinds, and two meanings.
  if (const auto* kda = std::get_if<KdaSpec>(&layer.attention)) {
    visit_kda(at + "self_attn.", *kda, hidden, as<KdaWeights>(w.attention), v);
  } else {
    visit_mla(at + "self_attn.", std::get<MlaSpec>(layer.attention), hidden,
              as<MlaWeights>(w.attention), v);
  }
  if (const auto* dense = std::get_if<DenseFfnSpec>(&layer.ffn)) {
    visit_ffn(at + "mlp.", dense->intermediate, hidden, as<FfnWeights>(w.ffn), v);
  } else {
    visit_moe(at + "block_sparse_moe.", std::get<MoeSpec>(layer.ffn), hidden, as<MoeWeights>(w.ffn),
              v);
  }
}

}  // namespace

void visit_weights(const ModelSpec& spec, ModelWeights& weights, WeightVisitor& v) {
  const std::string at = spec.tensor_prefix + "model.";
  v.matrix(at + "embed_tokens.weight", spec.vocab_size, spec.hidden, weights.embedding);
  weights.layers.resize(spec.layers.size());
  for (std::size_t l = 0; l < spec.layers.size(); ++l) {
    visit_layer(fmt::format("{}layers.{}.", at, l), spec.layers[l], spec, weights.layers[l], v);
  }
  if (spec.residual_block) v.mix(at + "output_attn_res", spec.hidden, weights.output_mix);
  v.vector(at + "norm.weight", spec.hidden, weights.final_norm);
  if (spec.tied_embeddings) {
    weights.head = weights.embedding;
  } else {
    v.matrix(spec.tensor_prefix + "lm_head.weight", spec.vocab_size, spec.hidden, weights.head);
  }
}

}  // namespace tandem
