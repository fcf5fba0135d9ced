"""A Llama network as a Graph, from a GGUF file: integers stay the integers of the file.

A layer of Q4_1 is two: x · (d c + m)ᵀ = x · (d c)ᵀ + s · mᵀ, where s are the sums of x over the blocks. The first is an ordinary layer with
block-wise integer weights, the second has a 32nd of its size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike

import numpy as np

from lowbit.dims import Dim, symbol
from lowbit.frontends.gguf.blocks import BLOCK, BlockTensor
from lowbit.frontends.gguf.file import GGUFFile, read
from lowbit.frontends.gguf.llama import Llama, rotations, sizes
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.types import TensorType


def load_gguf(source: str | PathLike[str] | GGUFFile, *, integers: bool = True) -> Graph:
    """The network: ids (batch, seq) to logits (batch, seq, vocabulary).

    integers  weights stay the file's integers and scales, with a dequantize_linear after them; False: they are float constants, which
              recipes can quantize anew
    """
    file = source if isinstance(source, GGUFFile) else read(source)
    return _Maker(file, sizes(file), integers, Builder(str(file.get("general.name", file.name)))).run()


@dataclass
class _Maker:
    file: GGUFFile
    s: Llama
    integers: bool
    b: Builder
    held: dict[str, tuple[Value, ...]] = field(default_factory=dict)  # constants of a tensor: a table that is also the head is one

    def run(self) -> Graph:
        s, b = self.s, self.b
        batch, seq = symbol("batch"), symbol("seq")
        ids = b.input("ids", TensorType((batch, seq), "int64"))
        x = self.embedding(ids)
        angles = []
        for name, table in zip(("rope.cos", "rope.sin"), rotations(s, s.length)):
            angles.append(b.add("slice", b.constant(table, name), axes=(0,), starts=(0,), ends=(seq,), steps=(1,)))
        for i in range(s.layers):
            x = self.attention(f"blk.{i}", x, (batch, seq), angles)
            x = self.feed_forward(f"blk.{i}", x)
        head = "output" if "output.weight" in self.file.tensors else "token_embd"
        return b.finish({"logits": self.linear(head, self.norm("output_norm", x), called="output")})

    def attention(self, block: str, x: Value, lead: tuple[Dim, Dim], angles: list[Value]) -> Value:
        s, b = self.s, self.b
        h = self.norm(f"{block}.attn_norm", x)
        heads = {"q": (s.kv_heads, s.shared), "k": (s.kv_heads, 1), "v": (s.kv_heads, 1)}
        parts = []
        for name, shape in heads.items():
            part = b.add("reshape", self.linear(f"{block}.attn_{name}", h), shape=(*lead, *shape, s.head))
            part = b.add("transpose", part, perm=(0, 2, 3, 1, 4))  # (batch, kv heads, queries of each, seq, head)
            parts.append(part if name == "v" else b.add("rotary_embedding", part, *angles, interleaved=True, name=f"{block}.rope_{name}"))
        y = b.add("attention", *parts, scale=s.head**-0.5, causal=True, name=f"{block}.attn")
        y = b.add("reshape", b.add("transpose", y, perm=(0, 3, 1, 2, 4)), shape=(*lead, s.heads * s.head))
        return b.add("add", x, self.linear(f"{block}.attn_output", y), name=f"{block}.attn_residual")

    def feed_forward(self, block: str, x: Value) -> Value:
        b = self.b
        h = self.norm(f"{block}.ffn_norm", x)
        gate = b.add("silu", self.linear(f"{block}.ffn_gate", h), name=f"{block}.silu")
        h = b.add("mul", gate, self.linear(f"{block}.ffn_up", h), name=f"{block}.gated")
        return b.add("add", x, self.linear(f"{block}.ffn_down", h), name=f"{block}.ffn_residual")

    def norm(self, name: str, x: Value) -> Value:
        weight = self.b.constant(self.file.real(f"{name}.weight"), f"{name}.weight")
        return self.b.add("rms_norm", x, weight, axis=-1, eps=self.s.eps, name=name)

    def linear(self, name: str, x: Value, called: str = "") -> Value:
        b, called = self.b, called or name
        t = self.file.tensor(f"{name}.weight")
        if not (self.integers and isinstance(t, BlockTensor)):
            return b.add("linear", x, self.real(name), name=called)
        offset = t.affine()[2]
        weight = b.add("dequantize_linear", *self.stored(t, name), axis=1, block_size=BLOCK, name=f"{called}.weight")
        y = b.add("linear", x, weight, name=called)
        if offset is None:
            return y
        sums = b.add("reduce_sum", b.add("reshape", x, shape=(*x.shape[:-1], offset.shape[1], BLOCK)), axes=(-1,), keepdims=False)
        shift = b.add("linear", sums, b.constant(offset, f"{called}.offset"), name=f"{called}.shift")
        return b.add("add", y, shift, name=f"{called}.shifted")

    def real(self, name: str) -> Value:
        """The weight as floats."""
        if name not in self.held:
            self.held[name] = (self.b.constant(self.file.real(f"{name}.weight"), f"{name}.weight"),)
        return self.held[name][0]

    def stored(self, t: BlockTensor, name: str) -> tuple[Value, ...]:
        """Integers, scales and zero points as constants."""
        if name not in self.held:
            params, codes, _ = t.affine()
            zero = params.zero_point.astype(codes.dtype)
            named = ((codes, "ints"), (np.asarray(params.scale), "scale"), (zero, "zero_point"))
            self.held[name] = tuple(self.b.constant(d, f"{name}.{what}", None if what == "scale" else t.kind.dtype) for d, what in named)
        return self.held[name]

    def embedding(self, ids: Value) -> Value:
        """The rows of the table: of integers, only those that are read become reals."""
        b, name = self.b, "token_embd"
        t = self.file.tensor(f"{name}.weight")
        if not (self.integers and isinstance(t, BlockTensor)):
            return b.add("gather", self.real(name), ids, axis=0, name=name)
        rows = [b.add("gather", part, ids, axis=0) for part in self.stored(t, name)]
        x = b.add("dequantize_linear", *rows, axis=2, block_size=BLOCK, name=name)
        if (offset := t.affine()[2]) is None:
            return x
        wide = b.add("gather", b.constant(np.repeat(offset, BLOCK, axis=1), f"{name}.offset"), ids, axis=0)
        return b.add("add", x, wide)
