"""Random weights in GGUF's block formats, and a small language model of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lowbit.block_formats import FORMATS, block_format
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.types import TensorType

INTEGERS = [f.name for f in FORMATS.values() if not f.is_float]
FLOATS = [f.name for f in FORMATS.values() if f.is_float]
HALVES = {  # where halves stand in a block: scales and offsets
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2),
    "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,),
}  # fmt: skip


def random_rows(name: str, n: int, k: int, seed: int = 0) -> NDArray[np.uint8]:
    """Rows whose codes and 6-bit scales are any bits, and whose halves are about 1 / 64."""
    rng, f = np.random.default_rng(seed), block_format(name)
    if f.is_float:
        x = (rng.standard_normal((n, k)) / np.sqrt(k)).astype(np.float32)
        if name == "BF16":
            return np.ascontiguousarray((x.view(np.uint32) >> 16).astype(np.uint16)).view(np.uint8)
        return np.ascontiguousarray(x.astype(np.float16 if name == "F16" else np.float32)).view(np.uint8)
    raw = rng.integers(0, 256, (n, k // f.block, f.bytes), np.uint8)
    for at in HALVES[name]:
        raw[..., at : at + 2] = (rng.standard_normal((n, k // f.block, 1)) / 64).astype(np.float16).view(np.uint8)
    return raw.reshape(n, -1)


def linear_graph(name: str, rows: int, n: int, k: int, *, bias: bool = False, residual: bool = False, seed: int = 0) -> Graph:
    b = Builder()
    x = b.input("x", TensorType((rows, k), "float32"))
    more: list[Value | None] = [None, None]
    if bias:
        more[0] = b.constant(np.random.default_rng(seed + 1).standard_normal(n).astype(np.float32), "bias")
    if residual:
        more[1] = b.input("r", TensorType((rows, n), "float32"))
    return b.finish({"y": b.add("block_linear", x, b.constant(random_rows(name, n, k, seed), "w"), *more, format=name)})


def token_graph(
    rows: int, *, pages: int = 6, sequences: int = 2, slots: int = 3, layers: int = 2, format: str = "Q4_0", seed: int = 0
) -> Graph:
    """A Transformer of 64 features: 4 heads of 16, 2 of the cache, 96 tokens."""
    hidden, heads, kv_heads, depth, wide = 64, 4, 2, 16, 96
    b, rng = Builder(), np.random.default_rng(seed)
    ids, positions, which = (b.input(n, TensorType((rows,), "int32")) for n in ("ids", "positions", "sequences"))
    table = b.input("table", TensorType((sequences, slots), "int32"))
    cos, sin = (b.input(n, TensorType((rows, depth // 2), "float32")) for n in ("cos", "sin"))
    states: dict[str, Value] = {}
    for i in range(layers):
        states[f"k.{i}"] = b.input(f"k.{i}", TensorType((pages, kv_heads, depth, 32), "float16"))
        states[f"v.{i}"] = b.input(f"v.{i}", TensorType((pages, kv_heads, 32, depth), "float16"))

    def linear(x: Value, n: int, name: str, residual: Value | None = None) -> Value:
        w = b.constant(random_rows(format, n, int(x.shape[1]), seed + len(b._constants)), name)
        return b.add("block_linear", x, w, None, residual, format=format)

    def norm(x: Value, name: str) -> Value:
        return b.add("rms_norm_rows", x, b.constant(1 + rng.standard_normal(hidden).astype(np.float32) / 8, name), eps=1e-5)

    x = b.add("block_gather", b.constant(random_rows("Q8_0", 96, hidden, seed), "table.w"), ids, format="Q8_0")
    ends: dict[str, Value] = {}
    for i in range(layers):
        h = norm(x, f"a{i}")
        q, k, v = (
            b.add("reshape", linear(h, n * depth, f"{c}{i}.w"), shape=(rows, n, depth))
            for c, n in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        )
        q, k = (b.add("rotary", t, cos, sin, style="halves", dims=depth) for t in (q, k))
        ends[f"k.{i}:next"] = b.add("cache_store", states[f"k.{i}"], k, positions, which, table, keys=True)
        ends[f"v.{i}:next"] = b.add("cache_store", states[f"v.{i}"], v, positions, which, table, keys=False)
        y = b.add("cache_attention", q, ends[f"k.{i}:next"], ends[f"v.{i}:next"], positions, which, table, scale=depth**-0.5)
        x = linear(b.add("reshape", y, shape=(rows, heads * depth)), hidden, f"o{i}.w", x)
        h = norm(x, f"f{i}")
        x = linear(b.add("gate", linear(h, wide, f"g{i}.w"), linear(h, wide, f"u{i}.w"), function="silu"), hidden, f"d{i}.w", x)
    return b.finish({"hidden": norm(x, "end"), **ends})


def updates_of(graph: Graph) -> dict[str, str]:
    return {name.removesuffix(":next"): name for name in graph.outputs if name.endswith(":next")}
