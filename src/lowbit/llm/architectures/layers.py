"""The layers that decoders are made of, as graphs: a body from token ids to the hidden state, a head from there to logits.

A row is a token. Rows of one call may belong to several sequences; their keys and values are in the pages of `table`. What a network has
of biases, norms on heads, and norms after halves of a block shows in its tensors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowbit.frontends.gguf.file import RawTensor
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.llm.architectures.config import Config
from lowbit.llm.cache import PAGE
from lowbit.llm.weights import Weights
from lowbit.types import TensorType

GATES = {"silu": "silu", "gelu": "gelu_tanh"}


@dataclass(frozen=True)
class CacheShape:
    """How many pages there are, and how many sequences of how many pages the table has."""

    pages: int
    sequences: int
    length: int  # pages of the longest text

    def keys(self, c: Config) -> tuple[int, ...]:
        return self.pages, c.kv_heads, c.head, PAGE

    def values(self, c: Config) -> tuple[int, ...]:
        return self.pages, c.kv_heads, PAGE, c.head


@dataclass
class Decoder:
    """Makes the graphs of a network. Constants are the file's own bytes and have their tensors' names in every graph."""

    config: Config
    weights: Weights
    b: Builder = field(default_factory=lambda: Builder("decoder"))

    def body(self, rows: int, cache: CacheShape) -> tuple[Graph, dict[str, str]]:
        """ids, positions, sequences, table, rotations and the cache to hidden (rows, width); the cache's inputs and their outputs."""
        c, b = self.config, Builder(f"{self.config.architecture} of {rows} rows")
        self.b = b
        ids, positions, sequences = (b.input(n, TensorType((rows,), "int32")) for n in ("ids", "positions", "sequences"))
        table = b.input("table", TensorType((cache.sequences, cache.length), "int32"))
        places = positions, sequences, table
        turns = self._turns("", c.rope.dims, rows)
        local = turns if c.local_rope is None else self._turns("_local", c.local_rope.dims, rows)
        embeddings = self.weights.tensor("token_embd.weight", c.vocabulary, c.width)
        x = b.add("block_gather", self.matrix("token_embd.weight", embeddings), ids, format=embeddings.format, name="token_embd")
        if c.embedding_scale != 1:
            x = b.add("mul", x, b.constant(np.array([c.embedding_scale], np.float32), "embedding_scale"), name="embedding_scale")
        states: dict[str, Value] = {}
        for i in range(c.layers):
            k = b.input(f"k_cache.{i}", TensorType(cache.keys(c), "float16"))
            v = b.input(f"v_cache.{i}", TensorType(cache.values(c), "float16"))
            x, k, v = self.attention(i, x, k, v, places, local if c.windows[i] else turns)
            x = self.feed_forward(f"blk.{i}", x)
            states |= {f"k_cache.{i}": k, f"v_cache.{i}": v}
        updates = {name: f"{name}.new" for name in states}
        hidden = self.norm("output_norm", x)
        return b.finish({"hidden": hidden, **{updates[name]: value for name, value in states.items()}}), updates

    def head(self, rows: int) -> Graph:
        """hidden (rows, width) to logits (rows, vocabulary), before a soft cap."""
        c, b = self.config, Builder(f"head of {rows} rows")
        self.b = b
        hidden = b.input("hidden", TensorType((rows, c.width), "float32"))
        name = "output.weight" if "output.weight" in self.weights else "token_embd.weight"
        return b.finish({"logits": self.linear(name, hidden, self.weights.tensor(name, c.vocabulary, c.width))})

    def attention(
        self, i: int, x: Value, k_cache: Value, v_cache: Value, places: tuple[Value, ...], turns: tuple[Value, Value]
    ) -> tuple[Value, Value, Value]:
        c, b, block = self.config, self.b, f"blk.{i}"
        h = self.norm(f"{block}.attn_norm", x)
        q, k, v = self.queries_keys_values(block, h)
        rope = c.local_rope if c.windows[i] and c.local_rope is not None else c.rope
        turned = []
        for name, part in (("q", q), ("k", k)):
            if f"{block}.attn_{name}_norm.weight" in self.weights:
                part = self.norm(f"{block}.attn_{name}_norm", part)
            turned.append(b.add("rotary", part, *turns, style=rope.style, dims=rope.dims, name=f"{block}.rope_{name}"))
        k_cache = b.add("cache_store", k_cache, turned[1], *places, keys=True, name=f"{block}.k_cache")
        v_cache = b.add("cache_store", v_cache, v, *places, keys=False, name=f"{block}.v_cache")
        options: dict[str, Any] = {"scale": c.scale, "softcap": c.softcap, "window": c.windows[i]}
        y = b.add("cache_attention", turned[0], k_cache, v_cache, *places, name=f"{block}.attention", **options)
        y = b.add("reshape", y, shape=(x.shape[0], c.heads * c.head))
        return self.added(x, y, f"{block}.attn_output", f"{block}.post_attention_norm"), k_cache, v_cache

    def queries_keys_values(self, block: str, h: Value) -> list[Value]:
        """(rows, heads, features) each, from a matrix each or from the rows of one."""
        c = self.config
        heads = {"q": c.heads, "k": c.kv_heads, "v": c.kv_heads}
        parts = []
        together, at = f"{block}.attn_qkv.weight", 0
        for name, count in heads.items():
            if together in self.weights:
                whole = self.weights.tensor(together, sum(heads.values()) * c.head, c.width)
                y = self.linear(f"{block}.attn_{name}.weight", h, whole.rows(at, at + count * c.head))
                at += count * c.head
            else:
                y = self.layer(f"{block}.attn_{name}", h, count * c.head)
            parts.append(self.b.add("reshape", y, shape=(h.shape[0], count, c.head)))
        return parts

    def feed_forward(self, block: str, x: Value) -> Value:
        c = self.config
        h = self.norm(f"{block}.ffn_norm", x)
        if f"{block}.ffn_gate.weight" in self.weights:
            gate, up = (self.layer(f"{block}.{name}", h, c.hidden) for name in ("ffn_gate", "ffn_up"))
        else:  # both are rows of one
            whole = self.weights.tensor(f"{block}.ffn_up.weight", 2 * c.hidden, c.width)
            gate = self.linear(f"{block}.ffn_gate.weight", h, whole.rows(0, c.hidden))
            up = self.linear(f"{block}.ffn_up.weight", h, whole.rows(c.hidden, 2 * c.hidden))
        y = self.b.add("gate", gate, up, function=GATES[c.activation], name=f"{block}.gate")
        return self.added(x, y, f"{block}.ffn_down", f"{block}.post_ffw_norm")

    def added(self, x: Value, y: Value, layer: str, norm: str) -> Value:
        """x plus the layer's result, which some networks normalize before."""
        if f"{norm}.weight" not in self.weights:
            return self.layer(layer, y, self.config.width, residual=x)
        return self.b.add("add", x, self.norm(norm, self.layer(layer, y, self.config.width)), name=f"{layer}.added")

    def layer(self, name: str, x: Value, outputs: int, residual: Value | None = None) -> Value:
        """A linear layer, with a bias where the file has one."""
        w = self.weights.tensor(f"{name}.weight", outputs, int(x.shape[1]))
        has_bias = f"{name}.bias" in self.weights
        bias = self.b.constant(self.weights.vector(f"{name}.bias", outputs), f"{name}.bias") if has_bias else None
        return self.linear(f"{name}.weight", x, w, bias, residual)

    def linear(self, name: str, x: Value, w: RawTensor, bias: Value | None = None, residual: Value | None = None) -> Value:
        return self.b.add("block_linear", x, self.matrix(name, w), bias, residual, format=w.format, name=name.removesuffix(".weight"))

    def matrix(self, name: str, w: RawTensor) -> Value:
        return self.b.constant(w.data, name)

    def norm(self, name: str, x: Value) -> Value:
        weight = self.weights.vector(f"{name}.weight", int(x.shape[-1]))
        weight = weight + np.float32(self.config.norm_offset) if self.config.norm_offset else weight
        return self.b.add("rms_norm_rows", x, self.b.constant(weight, f"{name}.weight"), eps=self.config.eps, name=name)

    def _turns(self, suffix: str, dims: int, rows: int) -> tuple[Value, Value]:
        cos, sin = (self.b.input(f"{n}{suffix}", TensorType((rows, dims // 2), "float32")) for n in ("cos", "sin"))
        return cos, sin
