"""Writes a Kimi K3 checkpoint folder as a GGUF file, so that llama.cpp computes with the same weights.

    to_gguf.py CHECKPOINT OUT.gguf        needs numpy

Every weight keeps the bits that it has: bf16 matrices, MXFP4 experts (only their nibbles move). Vectors, and the
few matrices that llama.cpp wants so, become fp32, which is exact. The vocabulary is placeholders: both sides of a
comparison are given token ids. Tensor names follow llama.cpp's architecture "kimi-k3".
"""
import json
import pathlib
import struct
import sys

import numpy

ALIGNMENT = 32
F32, MXFP4, BF16 = 0, 39, 30  # GGUF's numbers of the tensor types written here
SAFETENSORS_TYPES = {"F32": "<f4", "BF16": "<u2", "U8": "u1"}  # bf16 stays bits: numpy has no such type
MXFP4_BLOCK = 32

# A layer's tensors: the checkpoint's name, GGUF's name.
EVERY_LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
               "self_attn.o_proj": "attn_output"}
KDA = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
       "self_attn.f_a_proj": "ssm_f_a", "self_attn.f_b_proj": "ssm_f_b", "self_attn.b_proj": "ssm_beta",
       "self_attn.g_proj": "ssm_g", "self_attn.o_norm": "ssm_norm"}
MLA = {"self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
       "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
       "self_attn.g_proj": "attn_gate"}
DENSE = {"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
MOE = {"block_sparse_moe.routed_expert_down_proj": "ffn_routed_down",
       "block_sparse_moe.routed_expert_up_proj": "ffn_routed_up",
       "block_sparse_moe.routed_expert_norm": "ffn_routed_norm",
       "block_sparse_moe.shared_experts.gate_proj": "ffn_gate_shexp",
       "block_sparse_moe.shared_experts.up_proj": "ffn_up_shexp",
       "block_sparse_moe.shared_experts.down_proj": "ffn_down_shexp"}
EXPERT = {"w1": "ffn_gate_exps", "w2": "ffn_down_exps", "w3": "ffn_up_exps"}


def read_checkpoint(folder):
    """{name: array}, the arrays mapped from the files; bf16 as uint16."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = numpy.memmap(path, mode="r")
        header_bytes = struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(bytes(data[8:8 + header_bytes])).items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            raw = data[8 + header_bytes + begin:8 + header_bytes + end]
            tensors[name.removeprefix("language_model.")] = (
                raw.view(SAFETENSORS_TYPES[entry["dtype"]]).reshape(entry["shape"]))
    return tensors


def to_f32(array):
    if array.dtype == numpy.uint16:
        return (array.astype(numpy.uint32) << 16).view(numpy.float32)
    return array.astype(numpy.float32)


def mxfp4_blocks(packed, scale):
    """GGUF's blocks: a scale byte, then 16 bytes that hold elements j (low nibble) and j + 16 (high nibble).

    packed  [..., n / 2] bytes: elements 2 j (low) and 2 j + 1 (high);  scale  [..., n / 32] E8M0 exponents
    """
    codes = numpy.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1, MXFP4_BLOCK)
    half = MXFP4_BLOCK // 2
    return numpy.concatenate([scale[..., None], codes[..., :half] | codes[..., half:] << 4], axis=-1)


class GgufWriter:
    """Collects metadata and tensors; write() makes the file."""

    SCALARS = {"u32": (4, "<I"), "f32": (6, "<f"), "bool": (7, "<?")}
    ARRAYS = {"i32": (5, "<i"), "string": (8, None)}

    def __init__(self):
        self.metadata, self.tensors = [], []

    @staticmethod
    def string(text):
        encoded = text.encode()
        return struct.pack("<Q", len(encoded)) + encoded

    def set_string(self, key, value):
        self.metadata.append(self.string(key) + struct.pack("<I", 8) + self.string(value))

    def set(self, key, kind, value):
        code, layout = self.SCALARS[kind]
        self.metadata.append(self.string(key) + struct.pack("<I", code) + struct.pack(layout, value))

    def set_array(self, key, kind, values):
        code, layout = self.ARRAYS[kind]
        items = b"".join(struct.pack(layout, v) if layout else self.string(v) for v in values)
        self.metadata.append(self.string(key) + struct.pack("<IIQ", 9, code, len(values)) + items)

    def add(self, name, array, as_f32=False):
        """A tensor; bf16 matrices keep their bits, everything else is written as fp32."""
        if array.dtype == numpy.uint16 and array.ndim > 1 and not as_f32:
            self.tensors.append((name, array.shape, BF16, array))
        else:
            self.tensors.append((name, array.shape, F32, to_f32(array)))

    def add_mxfp4(self, name, packed, scale):
        self.tensors.append((name, (*packed.shape[:-1], packed.shape[-1] * 2), MXFP4, mxfp4_blocks(packed, scale)))

    def write(self, path):
        infos, offset = [], 0
        for name, shape, kind, array in self.tensors:
            infos.append(self.string(name) + struct.pack("<I", len(shape))
                         + struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, offset))
            offset += array.nbytes + -array.nbytes % ALIGNMENT
        head = b"".join([b"GGUF", struct.pack("<IQQ", 3, len(self.tensors), len(self.metadata)),
                         *self.metadata, *infos])
        with open(path, "wb") as file:
            file.write(head + bytes(-len(head) % ALIGNMENT))
            for *_, array in self.tensors:
                file.write(numpy.ascontiguousarray(array).tobytes())
                file.write(bytes(-array.nbytes % ALIGNMENT))


def add_metadata(out, config):
    text, linear = config["text_config"], config["text_config"]["linear_attn_config"]
    latent, rope, nope = text["kv_lora_rank"], text["qk_rope_head_dim"], text["qk_nope_head_dim"]
    out.set_string("general.architecture", "kimi-k3")
    out.set_string("general.name", "a checkpoint under comparison")
    attention_layers = [0 if i + 1 in linear["kda_layers"] else 1 for i in range(text["num_hidden_layers"])]
    out.set_array("kimi-k3.attention.head_count_kv", "i32", attention_layers)
    for key, value in {
            "block_count": text["num_hidden_layers"], "context_length": text["max_position_embeddings"],
            "vocab_size": text["vocab_size"], "embedding_length": text["hidden_size"],
            "feed_forward_length": text["intermediate_size"], "attention.head_count": text["num_attention_heads"],
            "attention.q_lora_rank": text["q_lora_rank"], "attention.kv_lora_rank": latent,
            "attention.key_length": latent + rope, "attention.value_length": latent,
            "attention.key_length_mla": nope + rope, "attention.value_length_mla": text["v_head_dim"],
            "rope.dimension_count": rope, "ssm.conv_kernel": linear["short_conv_kernel_size"],
            "kda.head_dim": linear["head_dim"], "attn_res.block_size": text["attn_res_block_size"],
            "leading_dense_block_count": text["first_k_dense_replace"], "expert_count": text["num_experts"],
            "expert_used_count": text["num_experts_per_token"], "expert_shared_count": text["num_shared_experts"],
            "expert_feed_forward_length": text["moe_intermediate_size"],
            "expert_latent_length": text["routed_expert_hidden_size"],
            "expert_gating_func": 2}.items():  # 2: sigmoid
        out.set("kimi-k3." + key, "u32", value)
    for key, value in {
            "attention.layer_norm_rms_epsilon": text["rms_norm_eps"],
            "kda.gate_lower_bound": linear["gate_lower_bound"],
            "activation.situ_beta": text["activation_situ_beta"],
            "activation.situ_linear_beta": text["activation_situ_linear_beta"],
            "expert_weights_scale": text["routed_scaling_factor"]}.items():
        out.set("kimi-k3." + key, "f32", value)
    out.set("kimi-k3.expert_weights_norm", "bool", True)
    vocabulary = [f"<t{i}>" for i in range(text["vocab_size"])]
    out.set_string("tokenizer.ggml.model", "gpt2")
    out.set_string("tokenizer.ggml.pre", "kimi-k2")
    out.set_array("tokenizer.ggml.tokens", "string", vocabulary)
    out.set_array("tokenizer.ggml.token_type", "i32", [1] * len(vocabulary))
    out.set_array("tokenizer.ggml.merges", "string", [])
    out.set("tokenizer.ggml.bos_token_id", "u32", config["bos_token_id"])
    out.set("tokenizer.ggml.eos_token_id", "u32", config["eos_token_id"])


class Converter:
    def __init__(self, config, tensors, out):
        self.text, self.tensors, self.out = config["text_config"], tensors, out

    def weight(self, name):
        return self.tensors[name + ".weight"]

    def residual_score(self, name):
        """Attention Residuals score a block with a norm's scale times a projection: llama.cpp keeps the product."""
        return to_f32(self.weight(name + "_norm")) * to_f32(self.weight(name + "_proj")).reshape(-1)

    def add_named(self, source, target, names):
        for ours, theirs in names.items():
            self.out.add(f"{target}{theirs}.weight", self.weight(source + ours))

    def add_kda(self, source, target):
        self.add_named(source, target, KDA)
        attention, heads = source + "self_attn.", self.text["linear_attn_config"]["num_heads"]
        for x in "qkv":
            filters = self.weight(f"{attention}{x}_conv1d")  # [channels, 1, taps]
            self.out.add(f"{target}ssm_conv1d_{x}.weight",
                         filters.reshape(1, filters.shape[0], 1, filters.shape[-1]), as_f32=True)
        self.out.add(target + "ssm_a", -numpy.exp(to_f32(self.tensors[attention + "A_log"]).reshape(-1)[:heads]))
        self.out.add(target + "ssm_dt.bias", self.tensors[attention + "dt_bias"])

    def add_mla(self, source, target):
        self.add_named(source, target, MLA)
        nope, value = self.text["qk_nope_head_dim"], self.text["v_head_dim"]
        both = self.weight(source + "self_attn.kv_b_proj").reshape(
            self.text["num_attention_heads"], nope + value, self.text["kv_lora_rank"])
        self.out.add(target + "attn_k_b.weight", both[:, :nope].transpose(0, 2, 1))
        self.out.add(target + "attn_v_b.weight", both[:, nope:])

    def add_moe(self, source, target):
        self.add_named(source, target, MOE)
        moe = source + "block_sparse_moe."
        self.out.add(target + "ffn_gate_inp.weight", self.weight(moe + "gate"), as_f32=True)
        self.out.add(target + "exp_probs_b.bias", self.tensors[moe + "gate.e_score_correction_bias"])
        for ours, theirs in EXPERT.items():
            experts = [f"{moe}experts.{e}.{ours}.weight_" for e in range(self.text["num_experts"])]
            self.out.add_mxfp4(f"{target}{theirs}.weight",
                               numpy.stack([self.tensors[e + "packed"] for e in experts]),
                               numpy.stack([self.tensors[e + "scale"] for e in experts]))

    def add_layer(self, index):
        source, target = f"model.layers.{index}.", f"blk.{index}."
        self.add_named(source, target, EVERY_LAYER)
        self.out.add(target + "attn_res_score.weight", self.residual_score(source + "self_attention_res"))
        self.out.add(target + "ffn_res_score.weight", self.residual_score(source + "mlp_res"))
        is_kda = index + 1 in self.text["linear_attn_config"]["kda_layers"]
        (self.add_kda if is_kda else self.add_mla)(source, target)
        if index < self.text["first_k_dense_replace"]:
            self.add_named(source, target, DENSE)
        else:
            self.add_moe(source, target)

    def add_all(self):
        self.out.add("token_embd.weight", self.weight("model.embed_tokens"))
        self.out.add("output_norm.weight", self.weight("model.norm"))
        self.out.add("output.weight", self.weight("lm_head"))
        self.out.add("output_res_score.weight", self.residual_score("model.output_attn_res"))
        for index in range(self.text["num_hidden_layers"]):
            self.add_layer(index)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    config = json.loads((folder / "config.json").read_text())
    if "attn_res_block_size" not in config.get("text_config", {}):
        sys.exit(f"to_gguf.py: {folder} is not a Kimi K3 checkpoint")
    out = GgufWriter()
    add_metadata(out, config)
    Converter(config, read_checkpoint(folder), out).add_all()
    out.write(sys.argv[2])


if __name__ == "__main__":
    main()
