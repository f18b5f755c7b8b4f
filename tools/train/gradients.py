"""Writes gradients of every weight of the tiny golden models by PyTorch's autograd in fp64, for tests.

usage: gradients.py OUT    (Debian's python3-torch; seconds on a CPU)

For each of tests/data/golden/k3_tiny and kimi_linear_tiny, OUT/NAME_gradients.json has two sequences, the
weight of every scored token's log-prob and entropy in the loss, and for every weight of
src/train/weight_walk.h five numbers: the gradient's Euclidean norm and its product with cos((j + 1) (i + 1)) for
j = 0..3 over the row-major elements i, in the layout that training keeps the weight in.
"""
import glob, json, math, os, sys
import torch

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../demo-model"))
import k3_reference as ref
from tensors import load_file

out = sys.argv[1]
os.makedirs(out, exist_ok=True)


def numbers(grad):
    g = grad.double().flatten()
    i = torch.arange(1, g.numel() + 1, dtype=torch.float64)
    return [g.norm().item()] + [(g * torch.cos((j + 1) * i)).sum().item() for j in range(4)]


def gradients(model, prefix):
    """Gradients under the paths of weight_walk.h."""
    grads, params = {}, dict(model.named_parameters())
    for name, p in params.items():
        path = name.removesuffix(".weight")
        layer = path.split(".")
        g = p.grad if p.grad is not None else torch.zeros_like(p)  # an unused residual mix
        if layer[0] == "layers" and layer[2] == "mlp" and not model.layers[int(layer[1])].dense:
            path = path.replace(".mlp.", ".block_sparse_moe.")
            if layer[3] in ("w1", "w2", "w3"):
                for e in range(p.shape[0]):
                    expert = path.replace(layer[3], f"experts.{e}.{layer[3]}")
                    grads[f"{prefix}model.{expert}"] = g[e]
                continue
        if path.endswith("q_conv1d"):  # one vector [width, q | k | v]
            parts = [params[name.replace("q_conv1d", f"{x}_conv1d")].grad[:, 0].T for x in "qkv"]
            grads[f"{prefix}model.{path.replace('q_conv1d', 'conv1d')}"] = torch.cat(parts, 1)
            continue
        if path.endswith(("k_conv1d", "v_conv1d", "res.norm")):
            continue
        if path.endswith("res.proj"):  # of the product of norm and projection
            norm = params[name.replace("proj", "norm")]
            path, g = path.removesuffix(".proj"), g.flatten() / norm.detach()
        grads[prefix + (path if path == "lm_head" else f"model.{path}")] = g
    return grads


def as_held(model):
    """Rounds to fp32 what the program computes once, when it loads a model, and keeps in fp32."""
    fp32 = lambda x: x.float().double() if torch.is_tensor(x) else torch.tensor(x).float().item()
    model.cfg["routed_scaling_factor"] = fp32(model.cfg["routed_scaling_factor"])
    with torch.no_grad():
        for m in model.modules():
            if isinstance(m, ref.RMSNorm):
                m.eps = fp32(m.eps)
            if isinstance(m, ref.KDA):
                m.A_log.copy_(fp32(m.A_log.exp()).log())
            if isinstance(m, ref.DepthMix):
                m.proj.weight.copy_(fp32(m.norm.weight * m.proj.weight) / m.norm.weight)


for name in ("k3_tiny", "kimi_linear_tiny"):
    folder = os.path.join(here, "../../tests/data/golden", name)
    config = json.load(open(f"{folder}/config.json"))
    prefix = "language_model." if "text_config" in config else ""
    config = config.get("text_config", config)
    tensors = {}
    for f in glob.glob(f"{folder}/*.safetensors"):
        tensors.update(load_file(f))
    model = ref.load_checkpoint(ref.K3(config), tensors, prefix).double()
    for p in model.parameters():
        p.requires_grad_(True)
    as_held(model)
    golden = load_file(os.path.join(here, "../../tests/data/golden", f"{name}_golden.safetensors"))
    ids = golden["ids"].long()
    sequences, loss, weights = [ids[:23], ids[40:54]], 0, []
    for s in sequences:
        log_p = model(s[None, :-1])[0].log_softmax(-1)
        entropy = -(log_p.exp() * log_p).sum(-1)
        for t in range(len(s) - 1):
            w, v = math.cos(len(weights)), 0.3 * math.sin(2 * len(weights))
            weights.append([w, v])
            loss = loss + w * log_p[t, s[t + 1]] + v * entropy[t]
    loss.backward()
    grads = gradients(model, prefix)
    json.dump(
        dict(
            sequences=[s.tolist() for s in sequences],
            weights=weights,
            loss=loss.item(),
            gradients={k: numbers(g) for k, g in sorted(grads.items())},
        ),
        open(f"{out}/{name}_gradients.json", "w"),
        indent=0,
    )
    print(name, "loss", loss.item(), len(grads), "gradients")
