"""A float copy of SmolLM2-135M whose weights lie on no grid: the same function, with its channels in another order.

The registries have the network in Q4_1 alone. Its numbers lie on sixteen levels in blocks of 32 columns, so that quantizing them again
would say nothing. Here the channels of the residual stream, of the feed-forward and of the values are put into a random order, in every
matrix that writes or reads them. The network computes the same; a block of 32 columns now has weights of many old blocks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lowbit.frontends.gguf.file import GGUFFile, RawTensor, mapped
from lowbit.frontends.gguf.header import Field
from lowbit.frontends.gguf.writer import TensorToWrite, write_file
from lowbit.numerics import F32


def write_float_copy(source: Path, target: Path, seed: int = 0) -> None:
    """`source`, a GGUF file of the architecture llama, as F32 with its channels permuted."""
    file = mapped(source)
    a = str(file["general.architecture"])
    width, hidden, kv = (int(file[f"{a}.{k}"]) for k in ("embedding_length", "feed_forward_length", "attention.head_count_kv"))
    heads, rng = int(file[f"{a}.attention.head_count"]), np.random.default_rng(seed)
    residual, head = rng.permutation(width), width // heads
    orders: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for i in range(int(file[f"{a}.block_count"])):
        inner = [rng.permutation(head) for _ in range(kv)]  # of each head of values
        values = np.concatenate([h * head + p for h, p in enumerate(inner)])
        outputs = np.concatenate([h * head + inner[h * kv // heads] for h in range(heads)])
        orders[i] = rng.permutation(hidden), values
        orders[-1 - i] = outputs, outputs

    def real(name: str) -> F32:
        t = file.tensors[name]
        assert isinstance(t, RawTensor)
        w = t.dequantize()
        part = name.split(".")
        if part[0] != "blk":
            return np.ascontiguousarray(w[..., residual])
        (ffn, values), (outputs, _) = orders[int(part[1])], orders[-1 - int(part[1])]
        if part[2] == "attn_output":
            w = w[residual][:, outputs]
        elif part[2] == "ffn_down":
            w = w[residual][:, ffn]
        else:
            rows = {"ffn_gate": ffn, "ffn_up": ffn, "attn_v": values}.get(part[2])
            w = w[..., residual] if rows is None else w[rows][:, residual]
        return np.ascontiguousarray(w)

    fields = {**file.fields, "general.file_type": Field(0, ("UINT32",))}
    write_file(target, fields, {n: _tensor(file, n, real) for n in file.tensors})


def _tensor(file: GGUFFile, name: str, real: object) -> TensorToWrite:
    assert callable(real)
    return TensorToWrite("F32", file.shape(name), lambda: real(name).view(np.uint8))
