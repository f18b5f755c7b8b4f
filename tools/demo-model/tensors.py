"""Minimal safetensors reader and writer, and the Kimi rank-BPE, for the scripts beside this file."""
import base64, json, struct
import torch

_T = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U8": torch.uint8,
    "I32": torch.int32,
    "I64": torch.int64,
}
_N = {v: k for k, v in _T.items()}


def load_file(path):
    raw = open(path, "rb").read()
    (n,) = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8 : 8 + n])
    out = {}
    for k, h in head.items():
        if k != "__metadata__":
            a, b = h["data_offsets"]
            out[k] = (
                torch.frombuffer(
                    bytearray(raw[8 + n + a : 8 + n + b]), dtype=_T[h["dtype"]]
                ).reshape(h["shape"])
                if b > a
                else torch.empty(h["shape"], dtype=_T[h["dtype"]])
            )
    return out


def save_file(tensors, path):
    head, at, blobs = {}, 0, []
    for k, t in tensors.items():
        t = t.detach().contiguous().cpu()
        b = bytes(t.flatten().view(torch.uint8).numpy().tobytes()) if t.numel() else b""
        head[k] = {"dtype": _N[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(b)]}
        at += len(b)
        blobs.append(b)
    h = json.dumps(head).encode()
    h += b" " * (-len(h) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(h)) + h + b"".join(blobs))


PATTERN = "|".join(
    [
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


class Tokenizer:
    def __init__(self, folder):
        import regex

        self.ranks = {
            base64.b64decode(l.split()[0]): int(l.split()[1])
            for l in open(f"{folder}/tiktoken.model")
        }
        self.special = {
            v["content"]: int(k)
            for k, v in json.load(open(f"{folder}/tokenizer_config.json"))[
                "added_tokens_decoder"
            ].items()
        }
        self.bytes = {i: b for b, i in self.ranks.items()}
        self.names = {i: s for s, i in self.special.items()}
        self.split = regex.compile(PATTERN, regex.V1)
        self.markup = regex.compile("|".join(regex.escape(s) for s in self.special))

    def _word(self, b):
        parts = [bytes([x]) for x in b]
        while len(parts) > 1:
            r, i = min(
                (self.ranks.get(parts[i] + parts[i + 1], 1 << 30), i) for i in range(len(parts) - 1)
            )
            if r == 1 << 30:
                break
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        return [self.ranks[p] for p in parts]

    def plain(self, text):
        return [t for w in self.split.findall(text) for t in self._word(w.encode())]

    def encode(self, text):
        """Special tokens spelled out in `text` become their ids."""
        out, at = [], 0
        for m in self.markup.finditer(text):
            out += self.plain(text[at : m.start()]) + [self.special[m.group()]]
            at = m.end()
        return out + self.plain(text[at:])

    def decode(self, ids):
        return b"".join(self.bytes.get(i) or self.names.get(i, "").encode() for i in ids).decode(
            "utf-8", "replace"
        )
