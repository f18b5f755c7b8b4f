#include "model/config.h"

#include <algorithm>

#include "kernels/ops/residual_mix.h"
#include "model/config_fields.h"
#include "model/input.h"

namespace tandem {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{4} << 20;

// Bounds that keep every product of sizes inside 63 bits, far above any model.
constexpr IntRange kLayers = {1, 1 << 12};
constexpr IntRange kHeads = {1, 1 << 12};
constexpr IntRange kHeadWidth = {2, 1 << 12, true};  // even: rows of bf16 pairs stay aligned
constexpr IntRange kWidth = {1, 1 << 20};
constexpr IntRange kLatentWidth = {2, 1 << 20, true};
constexpr IntRange kConvWidth = {2, 64};
constexpr IntRange kExperts = {1, 1 << 16};
constexpr IntRange kContext = {1, (std::int64_t{1} << 31) - 1};

// Fields of the sparse-attention indexer of later models, which this forward pass does not have.
bool is_indexer_field(std::string_view name) {
  return name.starts_with("index_") || name.find("indexer") != std::string_view::npos;
}

KdaSpec read_kda(ConfigFields& text, ConfigFields& linear) {
  KdaSpec kda;
  kda.heads = linear.integer("num_heads", kHeads);
  kda.head_dim = linear.integer("head_dim", kHeadWidth);
  kda.conv_width = linear.integer("short_conv_kernel_size", kConvWidth);
  kda.decay_lower_bound = linear.optional_number("gate_lower_bound", {-80, -1e-3});
  kda.full_rank_gate =
      text.boolean_or("use_full_rank_gate", linear.boolean_or("use_full_rank_gate", false));
  return kda;
}

MlaSpec read_mla(ConfigFields& text) {
  MlaSpec mla;
  mla.dims.heads = text.integer("num_attention_heads", kHeads);
  mla.dims.nope = text.integer("qk_nope_head_dim", kHeadWidth);
  mla.dims.pe = text.integer("qk_rope_head_dim", kHeadWidth);
  mla.dims.value = text.integer("v_head_dim", kHeadWidth);
  mla.dims.latent = text.integer("kv_lora_rank", kLatentWidth);
  mla.q_rank = text.optional_integer("q_lora_rank", kWidth);
  mla.output_gate = text.boolean_or("mla_use_output_gate", false);
  if (text.integer_or("num_key_value_heads", kHeads, mla.dims.heads) != mla.dims.heads) {
    text.expected("num_key_value_heads", "the value of num_attention_heads");
  }
  if (!text.boolean_or("mla_use_nope", true)) {
    text.expected("mla_use_nope", "true (rotary positions are not supported)");
  }
  return mla;
}

MoeSpec read_moe(ConfigFields& text) {
  MoeSpec moe;
  moe.experts = text.integer("num_experts", kExperts);
  moe.top_k = text.integer("num_experts_per_token", {1, moe.experts});
  moe.intermediate = text.integer("moe_intermediate_size", kWidth);
  moe.shared_intermediate = moe.intermediate * text.integer("num_shared_experts", {1, 1 << 10});
  moe.latent = text.optional_integer("routed_expert_hidden_size", kWidth);
  moe.latent_norm = text.boolean_or("latent_moe_use_norm", false) && moe.latent.has_value();
  moe.renormalize = text.boolean("moe_renormalize");
  moe.scaling = text.number("routed_scaling_factor", {1e-6, 1e6});
  moe.bias_in_weights = text.boolean_or("router_bias_in_weights", false);
  if (text.string_or("moe_router_activation_func", "sigmoid") != "sigmoid") {
    text.expected("moe_router_activation_func", "'sigmoid'");
  }
  if (text.string_or("topk_method", "noaux_tc") != "noaux_tc") {
    text.expected("topk_method", "'noaux_tc'");
  }
  if (!text.boolean_or("use_grouped_topk", true)) return moe;
  moe.groups = text.integer_or("num_expert_group", {1, moe.experts}, 1);
  moe.top_groups = text.integer_or("topk_group", {1, moe.groups}, 1);
  const std::int64_t group_size = moe.experts / moe.groups;
  if (group_size * moe.groups != moe.experts || (moe.groups > 1 && group_size < 2)) {
    text.expected("num_expert_group", "a divisor of num_experts that leaves groups of at least 2");
  }
  if (moe.top_k > moe.top_groups * group_size) {
    text.expected("topk_group", "groups that hold num_experts_per_token experts");
  }
  return moe;
}

ActivationSpec read_activation(ConfigFields& text) {
  constexpr ConfigRange kBeta = {1e-3, 1e6};
  const std::string name = text.string("hidden_act");
  if (name == "silu") return {GatedActivation::kSwiGlu};
  if (name == "situ") {
    return {GatedActivation::kSituGlu, text.number("activation_situ_beta", kBeta),
            text.number("activation_situ_linear_beta", kBeta)};
  }
  text.expected("hidden_act", "'silu' or 'situ'");
  return {};
}

// kda[l] for every layer, from the two lists, which count from 1 and must partition 1..count.
std::vector<bool> read_schedule(ConfigFields& linear, std::int64_t count) {
  std::vector<bool> kda(static_cast<std::size_t>(count));
  std::vector<int> listed(static_cast<std::size_t>(count));
  for (std::int64_t layer : linear.integers("kda_layers", {1, count})) {
    kda[static_cast<std::size_t>(layer - 1)] = true;
    ++listed[static_cast<std::size_t>(layer - 1)];
  }
  for (std::int64_t layer : linear.integers("full_attn_layers", {1, count})) {
    ++listed[static_cast<std::size_t>(layer - 1)];
  }
  const auto bad = std::find_if(listed.begin(), listed.end(), [](int times) { return times != 1; });
  if (bad != listed.end()) {
    linear.wrong(
        "kda_layers",
        fmt::format("expected it and full_attn_layers to list each layer from 1 to {} "
                    "once, got layer {} {}",
                    count, bad - listed.begin() + 1, *bad == 0 ? "in neither" : "more than once"));
  }
  return kda;
}

void read_layers(ConfigFields& text, ConfigFields& linear, ModelSpec& spec) {
  const std::int64_t count = text.integer("num_hidden_layers", kLayers);
  const KdaSpec kda = read_kda(text, linear);
  const MlaSpec mla = read_mla(text);
  const DenseFfnSpec dense = {text.integer("intermediate_size", kWidth)};
  const MoeSpec moe = read_moe(text);
  const std::int64_t first_moe = text.integer("first_k_dense_replace", {0, count});
  const std::int64_t moe_period = text.integer_or("moe_layer_freq", kLayers, 1);
  spec.residual_block = text.optional_integer("attn_res_block_size", kLayers);
  const std::vector<bool> is_kda = read_schedule(linear, count);
  for (std::int64_t l = 0; l < count; ++l) {
    LayerSpec layer;
    if (is_kda[static_cast<std::size_t>(l)]) {
      layer.attention = kda;
    } else {
      layer.attention = mla;
    }
    if (l >= first_moe && l % moe_period == 0) {
      layer.ffn = moe;
    } else {
      layer.ffn = dense;
    }
    layer.starts_block = spec.residual_block && l % *spec.residual_block == 0;
    spec.layers.push_back(layer);
  }
  if (spec.bank_rows() > kMaxBankRows) {
    text.expected("attn_res_block_size", fmt::format("at most {} blocks of layers", kMaxBankRows));
  }
}

// bos, eos and pad stand in the text configuration, or else in the wrapper.
void read_token_ids(ConfigFields& text, ConfigFields& wrapper, ModelSpec& spec) {
  const IntRange range = {0, spec.vocab_size - 1};
  const auto read = [&](std::string_view name) {
    const bool inner = text.has(name) || !wrapper.has(name);
    return static_cast<TokenId>((inner ? text : wrapper).integer(name, range));
  };
  spec.bos_id = read("bos_token_id");
  spec.eos_id = read("eos_token_id");
  const bool has_pad = text.has("pad_token_id") || wrapper.has("pad_token_id");
  spec.pad_id = has_pad ? read("pad_token_id") : spec.eos_id;
}

// The one packed format that is read; which tensors are packed, the checkpoint itself shows.
bool read_packed_experts(ConfigFields& text, std::string_view source,
                         std::optional<Status>& error) {
  if (!text.has("quantization_config")) return false;
  ConfigFields packing(text.object("quantization_config"), source, "quantization_config.", error);
  if (packing.string("quant_method") != "compressed-tensors") {
    packing.expected("quant_method", "'compressed-tensors'");
  }
  if (packing.string("format") != "mxfp4-pack-quantized") {
    packing.expected("format", "'mxfp4-pack-quantized'");
  }
  return true;
}

void read_family(ConfigFields& wrapper, ModelSpec& spec) {
  const auto names = wrapper.members().find("architectures");
  if (names != wrapper.members().end() && names->is_array() && names->size() == 1 &&
      names->front().is_string()) {
    spec.architecture = names->front().get<std::string>();
  }
  const bool nested = wrapper.has("text_config");
  if (spec.architecture == "KimiK3ForConditionalGeneration") {
    spec.family = ModelFamily::kKimiK3;
    if (!nested) wrapper.expected("text_config", "an object");
  } else if (spec.architecture == "KimiLinearForCausalLM") {
    spec.family = ModelFamily::kKimiLinear;
  } else {
    wrapper.wrong(
        "architectures",
        fmt::format("expected ['KimiK3ForConditionalGeneration'] or "
                    "['KimiLinearForCausalLM'], got {}",
                    spec.architecture.empty() ? "another form" : in_quotes(spec.architecture)));
  }
  spec.tensor_prefix = nested ? "language_model." : "";
}

void refuse_unsupported(ConfigFields& text) {
  if (text.integer_or("num_nextn_predict_layers", {0, kLayers.high}, 0) != 0) {
    text.expected("num_nextn_predict_layers",
                  "0 (draft layers inside the model are not supported)");
  }
  for (const auto& [name, value] : text.members().items()) {
    if (is_indexer_field(name))
      text.wrong(name, "sparse attention with an indexer is not supported");
  }
}

}  // namespace

Result<ModelSpec> parse_config(std::string_view json, std::string_view source) {
  const nlohmann::json document = TRY(parse_json_object(json, source, kMaxConfigBytes));
  std::optional<Status> error;
  ConfigFields wrapper(document, source, "", error);
  ModelSpec spec;
  read_family(wrapper, spec);
  if (error) return fail(*error);

  const bool nested = wrapper.has("text_config");
  const std::string path = nested ? "text_config." : "";
  ConfigFields text(nested ? wrapper.object("text_config") : document, source, path, error);
  const std::string linear_path = path + "linear_attn_config.";
  ConfigFields linear(text.object("linear_attn_config"), source, linear_path, error);

  spec.vocab_size = text.integer("vocab_size", {1, std::int64_t{1} << 24});
  spec.hidden = text.integer("hidden_size", kWidth);
  spec.context_length = text.integer(
      text.has("max_position_embeddings") ? "max_position_embeddings" : "model_max_length",
      kContext);
  spec.norm_eps = text.number("rms_norm_eps", {1e-12, 1});
  spec.activation = read_activation(text);
  spec.tied_embeddings = text.boolean_or("tie_word_embeddings", false);
  spec.packed_experts =
      read_packed_experts(text.has("quantization_config") ? text : wrapper, source, error);
  read_token_ids(text, wrapper, spec);
  read_layers(text, linear, spec);
  refuse_unsupported(text);
  if (error) return fail(*error);
  return spec;
}

Result<ModelSpec> read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  const std::string text = TRY(read_small_file(path, kMaxConfigBytes));
  return parse_config(text, path.string());
}

}  // namespace tandem
