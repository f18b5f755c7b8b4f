"""Executable specification of the Kimi-K3 and Kimi-Linear text models in PyTorch.

Written from the public description of the architecture, for reading and for
producing reference values; speed does not matter here.  Every tensor keeps the
name and shape it has in a Kimi-K3 checkpoint, less the `language_model.` prefix.

Shapes: B batch, T tokens, D hidden, H heads, K/V KDA key/value head dim,
R kv_lora_rank, N/P nope/rope part of a query-key head, E experts, L latent.
"""
import math
import torch
import torch.nn.functional as F
from torch import nn


def up(x):
    """Compute precision: at least fp32; a model cast to double stays in double throughout."""
    return x if x.dtype == torch.float64 else x.float()


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        y = up(x)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def situ(gate, value, beta, linear_beta):
    """SiTU: a bounded SwiGLU. Both branches saturate through tanh."""
    a = beta * torch.tanh(gate / beta) * torch.sigmoid(gate)
    return a * (linear_beta * torch.tanh(value / linear_beta) if linear_beta else value)


def activation(cfg, gate, value):
    if cfg["hidden_act"] == "situ":
        return situ(
            up(gate), up(value), cfg["activation_situ_beta"], cfg["activation_situ_linear_beta"]
        ).to(gate.dtype)
    return F.silu(gate) * value


def kda_recurrent(q, k, v, g, beta, state=None):
    """Kimi Delta Attention, one token at a time, in fp32.

    q,k [B,T,H,K] L2-normalised, v [B,T,H,V], g [B,T,H,K] log decay, beta [B,T,H].
    S <- exp(g) S;  S <- S + k (beta (v - k^T S))^T;  o = S^T q / sqrt(K).
    Returns o [B,T,H,V] and the final state [B,H,K,V].
    """
    B, T, H, K = q.shape
    S = (
        torch.zeros(B, H, K, v.shape[-1], dtype=q.dtype, device=q.device)
        if state is None
        else state.clone()
    )
    out = torch.empty_like(v)
    for t in range(T):
        S = S * g[:, t].exp()[..., None]
        err = (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], S)) * beta[:, t][..., None]
        S = S + torch.einsum("bhk,bhv->bhkv", k[:, t], err)
        out[:, t] = torch.einsum("bhk,bhkv->bhv", q[:, t], S) * K**-0.5
    return out, S


KDA_KERNEL = None  # a faster kernel of the same contract may be plugged in for training


class KDA(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        la = cfg["linear_attn_config"]
        self.cfg, self.H, self.K = cfg, la["num_heads"], la["head_dim"]
        D, inner, W = (
            cfg["hidden_size"],
            la["num_heads"] * la["head_dim"],
            la["short_conv_kernel_size"],
        )
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(D, inner, bias=False) for _ in range(3))
        self.q_conv1d, self.k_conv1d, self.v_conv1d = (
            nn.Conv1d(inner, inner, W, groups=inner, bias=False) for _ in range(3)
        )
        self.f_a_proj = nn.Linear(D, self.K, bias=False)
        self.f_b_proj = nn.Linear(self.K, inner, bias=False)
        self.b_proj = nn.Linear(D, self.H, bias=False)
        self.A_log = nn.Parameter(torch.empty(self.H).uniform_(1, 4).log())
        self.dt_bias = nn.Parameter(torch.zeros(inner))
        self.full_rank_gate = cfg.get("use_full_rank_gate", la.get("use_full_rank_gate", False))
        if self.full_rank_gate:
            self.g_proj = nn.Linear(D, inner, bias=False)
        else:
            self.g_a_proj = nn.Linear(D, self.K, bias=False)
            self.g_b_proj = nn.Linear(self.K, inner, bias=False)
        self.o_norm = RMSNorm(self.K, cfg["rms_norm_eps"])
        self.o_proj = nn.Linear(inner, D, bias=False)
        self.lower_bound = la.get("gate_lower_bound")

    def conv(self, conv, x, window):
        """Depthwise causal convolution, then SiLU. window: last W-1 raw inputs, [B,inner,W-1]."""
        x = x.transpose(1, 2)
        W = conv.weight.shape[-1]
        if window is None:
            window = x.new_zeros(x.shape[0], x.shape[1], W - 1)
        full = torch.cat([window.to(x.dtype), x], dim=-1)
        y = F.silu(F.conv1d(full, conv.weight, groups=x.shape[1]))
        return y.transpose(1, 2), full[..., -(W - 1) :]

    def gate(self, x):
        f = up(self.f_b_proj(self.f_a_proj(x))) + up(self.dt_bias)
        f = f.view(*x.shape[:2], self.H, self.K)
        A = up(self.A_log).exp().view(1, 1, self.H, 1)
        if self.lower_bound is not None:  # Kimi K3
            return self.lower_bound * torch.sigmoid(A * f)
        return -A * F.softplus(f)  # Kimi Linear

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        st = cache if cache is not None else {}
        q, cq = self.conv(self.q_conv1d, self.q_proj(x), st.get("cq"))
        k, ck = self.conv(self.k_conv1d, self.k_proj(x), st.get("ck"))
        v, cv = self.conv(self.v_conv1d, self.v_proj(x), st.get("cv"))
        g = self.gate(x)
        beta = torch.sigmoid(up(self.b_proj(x)))
        q, k, v = (t.view(B, T, self.H, self.K) for t in (q, k, v))
        if KDA_KERNEL is not None and cache is None:
            o, S = KDA_KERNEL(q, k, v, g, beta)
        else:
            l2 = lambda t: up(t) / torch.sqrt(up(t).pow(2).sum(-1, keepdim=True) + 1e-6)
            o, S = kda_recurrent(l2(q), l2(k), up(v), g, beta, st.get("S"))
        st.update(cq=cq, ck=ck, cv=cv, S=S)
        gate = self.g_proj(x) if self.full_rank_gate else self.g_b_proj(self.g_a_proj(x))
        y = self.o_norm(up(o)) * torch.sigmoid(up(gate).view(B, T, self.H, self.K))
        return self.o_proj(y.to(x.dtype).reshape(B, T, -1))


class MLA(nn.Module):
    """Multi-head latent attention without positional rotation, optionally with an output gate."""

    def __init__(self, cfg):
        super().__init__()
        self.cfg, self.H = cfg, cfg["num_attention_heads"]
        self.N, self.P, self.V, self.R = (
            cfg["qk_nope_head_dim"],
            cfg["qk_rope_head_dim"],
            cfg["v_head_dim"],
            cfg["kv_lora_rank"],
        )
        D, eps = cfg["hidden_size"], 1e-6  # the two latent norms do not use rms_norm_eps
        if cfg.get("q_lora_rank"):
            self.q_a_proj = nn.Linear(D, cfg["q_lora_rank"], bias=False)
            self.q_a_layernorm = RMSNorm(cfg["q_lora_rank"], eps)
            self.q_b_proj = nn.Linear(cfg["q_lora_rank"], self.H * (self.N + self.P), bias=False)
        else:
            self.q_proj = nn.Linear(D, self.H * (self.N + self.P), bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(D, self.R + self.P, bias=False)
        self.kv_a_layernorm = RMSNorm(self.R, eps)
        self.kv_b_proj = nn.Linear(self.R, self.H * (self.N + self.V), bias=False)
        if cfg.get("mla_use_output_gate"):
            self.g_proj = nn.Linear(D, self.H * self.V, bias=False)
        self.o_proj = nn.Linear(self.H * self.V, D, bias=False)

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        q = (
            self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
            if hasattr(self, "q_a_proj")
            else self.q_proj(x)
        )
        q = q.view(B, T, self.H, self.N + self.P)
        c, kp = self.kv_a_proj_with_mqa(x).split([self.R, self.P], -1)
        c = self.kv_a_layernorm(c)
        past = 0
        if cache is not None:
            if "c" in cache:
                past = cache["c"].shape[1]
                c, kp = torch.cat([cache["c"], c], 1), torch.cat([cache["kp"], kp], 1)
            cache.update(c=c, kp=kp)
        kn, v = (
            self.kv_b_proj(c).view(B, past + T, self.H, self.N + self.V).split([self.N, self.V], -1)
        )
        k = torch.cat([kn, kp[:, :, None].expand(-1, -1, self.H, -1)], -1)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        score = up(q @ k.transpose(-1, -2)) * (self.N + self.P) ** -0.5
        causal = torch.ones(T, past + T, dtype=torch.bool, device=x.device).tril(past)
        o = score.masked_fill(~causal, -math.inf).softmax(-1).to(v.dtype) @ v
        o = o.transpose(1, 2).reshape(B, T, -1)
        if hasattr(self, "g_proj"):
            o = o * torch.sigmoid(self.g_proj(x))
        return self.o_proj(o)


class MLP(nn.Module):
    def __init__(self, cfg, inter):
        super().__init__()
        self.cfg = cfg
        self.gate_proj, self.up_proj = (
            nn.Linear(cfg["hidden_size"], inter, bias=False) for _ in range(2)
        )
        self.down_proj = nn.Linear(inter, cfg["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(activation(self.cfg, self.gate_proj(x), self.up_proj(x)))


E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def mxfp4_quantize(w):
    """OCP MX: groups of 32 along the last axis share a power-of-two scale (E8M0).

    scale = 2^(floor(log2 amax) - 2); elements round to the nearest E2M1 value, ties to the even code, saturating at 6;
    the sign of zero is kept; a group of zeros has scale byte 0.
    Returns codes uint8 [..., n] (bit 3 sign, bits 0-2 magnitude) and scales uint8 [..., n/32].
    """
    g = w.float().reshape(*w.shape[:-1], -1, 32)
    amax = g.abs().amax(-1, keepdim=True)
    exp = torch.where(
        amax > 0,
        torch.floor(torch.log2(amax.clamp_min(2.0**-126))) - 2,
        torch.full_like(amax, -127.0),
    ).clamp(-127, 127)
    x = g / torch.exp2(exp)
    edges = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], device=w.device)
    code = torch.bucketize(x.abs(), edges)
    code = torch.where((x.abs() == edges[code.clamp(max=6)]) & (code % 2 == 1), code + 1, code)
    code = code | (torch.signbit(x).to(code.dtype) << 3)
    return code.to(torch.uint8).reshape(w.shape), (exp.squeeze(-1) + 127).to(torch.uint8)


def mxfp4_dequantize(code, scale):
    table = torch.tensor(E2M1 + tuple(-v for v in E2M1), device=code.device)
    x = table[code.long()].reshape(*code.shape[:-1], -1, 32)
    return (x * torch.exp2(scale.float() - 127)[..., None]).reshape(code.shape)


class _FakeQuant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w):
        return mxfp4_dequantize(*mxfp4_quantize(w)).to(w.dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad


class MoE(nn.Module):
    """Latent MoE: experts work in a down-projected space; shared experts at full width."""

    fake_quant = False

    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        D, E, I = cfg["hidden_size"], cfg["num_experts"], cfg["moe_intermediate_size"]
        L = cfg.get("routed_expert_hidden_size") or D
        self.gate = nn.Linear(D, E, bias=False)
        self.register_buffer("e_score_correction_bias", torch.zeros(E))
        self.w1 = nn.Parameter(torch.empty(E, I, L))  # gate
        self.w3 = nn.Parameter(torch.empty(E, I, L))  # up
        self.w2 = nn.Parameter(torch.empty(E, L, I))  # down
        if cfg.get("routed_expert_hidden_size"):
            self.routed_expert_down_proj = nn.Linear(D, L, bias=False)
            self.routed_expert_up_proj = nn.Linear(L, D, bias=False)
            if cfg.get("latent_moe_use_norm"):
                self.routed_expert_norm = RMSNorm(L, cfg["rms_norm_eps"])
        self.shared_experts = MLP(cfg, I * cfg["num_shared_experts"])
        self.load = None

    def route(self, x):
        """x [M,D] -> weights, ids [M,k]. The bias moves the choice, never the weight."""
        cfg = self.cfg
        score = torch.sigmoid(F.linear(up(x), up(self.gate.weight)))
        ids = (score + self.e_score_correction_bias).topk(cfg["num_experts_per_token"], -1).indices
        w = score.gather(-1, ids)
        if cfg["moe_renormalize"]:
            w = w / (w.sum(-1, keepdim=True) + 1e-20)
        return w * cfg["routed_scaling_factor"], ids

    def forward(self, x):
        shape, cfg = x.shape, self.cfg
        x = x.reshape(-1, shape[-1])
        w, ids = self.route(x)
        z = self.routed_expert_down_proj(x) if hasattr(self, "routed_expert_down_proj") else x
        w1, w2, w3 = (
            (_FakeQuant.apply(t) for t in (self.w1, self.w2, self.w3))
            if self.fake_quant
            else (self.w1, self.w2, self.w3)
        )
        dense = torch.zeros(x.shape[0], cfg["num_experts"], device=x.device, dtype=w.dtype).scatter(
            1, ids, w
        )
        self.load = (dense > 0).float().mean(0).detach()
        h = activation(
            cfg,
            torch.einsum("ml,eil->mei", z, w1.to(z.dtype)),
            torch.einsum("ml,eil->mei", z, w3.to(z.dtype)),
        )
        y = torch.einsum("mei,eli->ml", h * dense[..., None].to(h.dtype), w2.to(z.dtype))
        if hasattr(self, "routed_expert_norm"):
            y = self.routed_expert_norm(y)
        if hasattr(self, "routed_expert_up_proj"):
            y = self.routed_expert_up_proj(y)
        return (y + self.shared_experts(x)).reshape(shape)


class DepthMix(nn.Module):
    """Attention Residuals: softmax over the banked streams and the current one."""

    def __init__(self, cfg):
        super().__init__()
        self.norm = RMSNorm(cfg["hidden_size"], cfg["rms_norm_eps"])
        self.proj = nn.Linear(cfg["hidden_size"], 1, bias=False)

    def forward(self, bank, stream):
        if not bank:
            return stream
        rows = up(torch.stack(bank + [stream], dim=-2))
        unit = rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + self.norm.eps)
        p = (unit * (up(self.norm.weight) * up(self.proj.weight).flatten())).sum(-1).softmax(-1)
        return (p[..., None] * rows).sum(-2).to(stream.dtype)


class Layer(nn.Module):
    def __init__(self, cfg, i):
        super().__init__()
        self.i, self.block = i, cfg.get("attn_res_block_size")
        is_kda = (i + 1) in cfg["linear_attn_config"]["kda_layers"]  # the lists count from 1
        self.self_attn = KDA(cfg) if is_kda else MLA(cfg)
        self.dense = i < cfg["first_k_dense_replace"]
        self.mlp = MLP(cfg, cfg["intermediate_size"]) if self.dense else MoE(cfg)
        self.input_layernorm = RMSNorm(cfg["hidden_size"], cfg["rms_norm_eps"])
        self.post_attention_layernorm = RMSNorm(cfg["hidden_size"], cfg["rms_norm_eps"])
        if self.block:
            self.self_attention_res, self.mlp_res = DepthMix(cfg), DepthMix(cfg)

    def forward(self, stream, bank, cache=None):
        mixed = self.self_attention_res(bank, stream) if self.block else stream
        a = self.self_attn(self.input_layernorm(mixed), cache)
        if (
            self.block and self.i % self.block == 0
        ):  # bank the raw stream, restart it from this output
            bank.append(stream)
            stream = a
        else:
            stream = stream + a
        mixed = self.mlp_res(bank, stream) if self.block else stream
        return stream + self.mlp(self.post_attention_layernorm(mixed))


class K3(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed_tokens = nn.Embedding(cfg["vocab_size"], cfg["hidden_size"])
        self.layers = nn.ModuleList(Layer(cfg, i) for i in range(cfg["num_hidden_layers"]))
        self.norm = RMSNorm(cfg["hidden_size"], cfg["rms_norm_eps"])
        if cfg.get("attn_res_block_size"):
            self.output_attn_res = DepthMix(cfg)
        self.lm_head = nn.Linear(cfg["hidden_size"], cfg["vocab_size"], bias=False)

    def init(self, std=0.02, seed=0):
        torch.manual_seed(seed)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding, nn.Conv1d)):
                nn.init.normal_(m.weight, std=0.25 if isinstance(m, nn.Conv1d) else std)
            if isinstance(m, MoE):
                for w in (m.w1, m.w2, m.w3):
                    nn.init.normal_(w, std=std * 2)
            if isinstance(m, DepthMix):
                nn.init.zeros_(m.proj.weight)
        return self

    def hidden(self, ids, caches=None, trace=None):
        x, bank = self.embed_tokens(ids), []
        for i, layer in enumerate(self.layers):
            x = layer(x, bank, None if caches is None else caches[i])
            if trace is not None:
                trace.append(x)
        if hasattr(self, "output_attn_res"):
            x = self.output_attn_res(bank, x)
        return self.norm(x)

    def forward(self, ids, caches=None, trace=None):
        return self.lm_head(self.hidden(ids, caches, trace))


def checkpoint_tensors(model, mxfp4=True):
    """state_dict under checkpoint names: one tensor per expert, experts packed as MXFP4."""
    out = {}
    for name, t in model.state_dict().items():
        if ".mlp.w" in name:
            base, w = name.replace(".mlp.", ".block_sparse_moe.").rsplit(".", 1)
            for e in range(t.shape[0]):
                stem = f"model.{base}.experts.{e}.{w}"
                if mxfp4:
                    code, scale = mxfp4_quantize(t[e])
                    out[f"{stem}.weight_packed"] = (
                        code[:, 0::2] | (code[:, 1::2] << 4)
                    ).contiguous()
                    out[f"{stem}.weight_scale"] = scale
                else:
                    out[f"{stem}.weight"] = t[e].to(torch.bfloat16).contiguous()
            continue
        layer = name.split(".")
        if layer[0] == "layers" and layer[2] == "mlp" and not model.layers[int(layer[1])].dense:
            name = name.replace(".mlp.", ".block_sparse_moe.")
            name = name.replace("e_score_correction_bias", "gate.e_score_correction_bias")
        for kind in ("self_attention_res", "mlp_res", "output_attn_res"):
            name = name.replace(f"{kind}.", f"{kind}_")
        if name.endswith("A_log"):  # K3 stores one value a head, zero-padded to head_dim
            cfg = model.cfg["linear_attn_config"]
            t = (
                F.pad(t, (0, cfg["head_dim"] - t.numel()))
                if cfg.get("gate_lower_bound") is not None
                else t.view(1, 1, -1, 1)
            )
        keep = (
            t.dtype
            if t.dtype == torch.uint8
            else (
                torch.float32
                if name.endswith(("A_log", "dt_bias", "correction_bias"))
                else torch.bfloat16
            )
        )
        out[name if name.startswith("lm_head") else f"model.{name}"] = t.to(keep).contiguous()
    return out


def load_checkpoint(model, tensors, prefix="language_model."):
    """Fills `model` from checkpoint-named tensors; the inverse of `checkpoint_tensors`."""
    state, H = {}, model.cfg["linear_attn_config"]["num_heads"]
    for name, dst in model.state_dict().items():
        if ".mlp.w" in name:
            base, w = name.replace(".mlp.", ".block_sparse_moe.").rsplit(".", 1)
            rows = []
            for e in range(dst.shape[0]):
                stem = f"{prefix}model.{base}.experts.{e}.{w}"
                if stem + ".weight_packed" in tensors:
                    packed = tensors[stem + ".weight_packed"]
                    code = torch.stack([packed & 15, packed >> 4], -1).flatten(-2)
                    rows.append(mxfp4_dequantize(code, tensors[stem + ".weight_scale"]))
                else:
                    rows.append(tensors[stem + ".weight"])
            state[name] = torch.stack(rows).to(dst.dtype)
            continue
        src, layer = name, name.split(".")
        if layer[0] == "layers" and layer[2] == "mlp" and not model.layers[int(layer[1])].dense:
            src = src.replace(".mlp.", ".block_sparse_moe.").replace(
                "e_score_correction_bias", "gate.e_score_correction_bias"
            )
        for kind in ("self_attention_res", "mlp_res", "output_attn_res"):
            src = src.replace(f"{kind}.", f"{kind}_")
        t = tensors[prefix + (src if src.startswith("lm_head") else f"model.{src}")]
        if name.endswith("A_log"):
            t = t.flatten()[:H]
        state[name] = t.to(dst.dtype)
    model.load_state_dict(state)
    return model
