"""The Llama architecture as GGUF files describe it: sizes from the fields, tensors by ggml's names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowbit.errors import FormatError, UnsupportedOp
from lowbit.frontends.gguf.file import GGUFFile
from lowbit.numerics import F32


@dataclass(frozen=True)
class Llama:
    """Sizes of a Llama network. Queries of `heads // kv_heads` heads share one head of keys and values."""

    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head: int  # features of a head
    length: int  # the longest text it was trained for
    vocabulary: int
    rope_base: float
    eps: float

    @property
    def shared(self) -> int:
        return self.heads // self.kv_heads


def sizes(file: GGUFFile) -> Llama:
    """The sizes of the file's network; UnsupportedOp unless it is a plain Llama."""
    if (architecture := file["general.architecture"]) != "llama":
        raise UnsupportedOp(f"the architecture {architecture!r} is not read", where=file.name, hint="llama is")
    extra = [n for n in file.tensors if n == "rope_freqs.weight" or ".ffn_gate_inp." in n or n.endswith(".bias")]
    if extra or file.get("llama.rope.scaling.type", "none") != "none":
        raise UnsupportedOp(f"{extra[0] if extra else 'rope scaling'!r} has no meaning here", where=file.name, hint="plain Llama networks")

    heads, width = int(file["llama.attention.head_count"]), int(file["llama.embedding_length"])
    found = Llama(
        layers=int(file["llama.block_count"]),
        width=width,
        hidden=int(file["llama.feed_forward_length"]),
        heads=heads,
        kv_heads=int(file.get("llama.attention.head_count_kv", heads)),
        head=int(file.get("llama.rope.dimension_count", width // heads)),
        length=int(file["llama.context_length"]),
        vocabulary=file.shape("token_embd.weight")[0],
        rope_base=float(file.get("llama.rope.freq_base", 10000.0)),
        eps=float(file["llama.attention.layer_norm_rms_epsilon"]),
    )
    for name, shape in _shapes(found).items():
        if file.shape(name) != shape:
            raise FormatError(f"tensor {name!r} is {file.shape(name)}, the fields say {shape}", where=file.name)
    return found


def _shapes(s: Llama) -> dict[str, tuple[int, ...]]:
    wide, narrow = (s.heads * s.head, s.width), (s.kv_heads * s.head, s.width)
    shapes: dict[str, tuple[int, ...]] = {"output_norm.weight": (s.width,), "token_embd.weight": (s.vocabulary, s.width)}
    for i in range(s.layers):
        block = {"attn_norm": (s.width,), "ffn_norm": (s.width,), "attn_q": wide, "attn_k": narrow, "attn_v": narrow}
        block |= {
            "attn_output": wide[::-1],
            "ffn_gate": (s.hidden, s.width),
            "ffn_up": (s.hidden, s.width),
            "ffn_down": (s.width, s.hidden),
        }
        shapes |= {f"blk.{i}.{name}.weight": shape for name, shape in block.items()}
    return shapes


def rotations(s: Llama, length: int) -> tuple[F32, F32]:
    """cos and sin of (length, head / 2) angles: position · base^(-2i / head), neighbours turned together."""
    angle = np.outer(np.arange(length), s.rope_base ** (-np.arange(0, s.head, 2) / s.head))
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
