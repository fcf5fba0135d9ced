"""An integer network with everything that a plan must handle, and inputs for it."""

from __future__ import annotations

import numpy as np

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.types import Array, TensorType

CLAMP = {"lo": -128, "hi": 127, "to": "int8"}


WINDOW = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1)}


def conv(b: Builder, x: Value, out: int, name: str, kernel: int = 3, groups: int = 1, stride: int = 1) -> Value:
    rng = np.random.default_rng(len(name))
    channels = int(x.shape[1])
    w = b.constant(rng.integers(-128, 128, (out, channels // groups, kernel, kernel)).astype(np.int8), name=f"{name}.w")
    m = b.constant(rng.uniform(1e-4, 1e-3, out).astype(np.float32), name=f"{name}.m")
    bias = b.constant(rng.integers(-1000, 1000, out).astype(np.int32), name=f"{name}.b")
    pad = kernel // 2
    geometry = {"stride": (stride, stride), "pads": (pad,) * 4, "dilation": (1, 1), "groups": groups}
    return b.add("q_conv", x, w, m, bias, name=name, **geometry, x_zero=3, y_zero=-5, **CLAMP, bound=1 << 24)


def network(batch: int = 2, height: int = 9, width: int = 7) -> Graph:
    """A residual network with everything that a layout must get past: branches, concat, pool, mean, a table, a second output."""
    b = Builder("net")
    x = b.input("x", TensorType((batch, 3, height, width), "float32"))
    scale, zero = b.constant(np.float32(0.05)), b.constant(np.int8(3))
    q = b.add("quantize_linear", x, scale, zero, axis=0, block_size=0, to="int8")
    a = conv(b, q, 8, "stem")
    d = conv(b, a, 8, "depthwise", groups=8)
    zeros = {"x_zero": -5, "y_zero": -5, "z_zero": 2}
    s = b.add("q_add", a, d, name="residual", **zeros, mx=0.7, my=0.9, **CLAMP)
    table = b.constant(np.random.default_rng(1).integers(-128, 128, 256).astype(np.int8), name="table")
    t = b.add("q_table", s, table, name="table")
    c = b.add("concat", t, a, axis=1, name="concat")
    p = b.add("max_pool", c, kernel=(3, 3), ceil_mode=False, **WINDOW, name="pool")
    e = conv(b, p, 5, "wide", kernel=1)
    mean = b.add("q_reduce_mean", e, axes=(2, 3), keepdims=False, x_zero=-5, y_zero=0, multiplier=1.5, **CLAMP, name="mean")
    flat = b.add("reshape", e, shape=(batch, 5 * height * width), name="flat")
    w = b.constant(np.random.default_rng(2).integers(-128, 128, (4, 5 * height * width)).astype(np.int8), name="fc.w")
    m = b.constant(np.full(4, 1e-4, np.float32), name="fc.m")
    y = b.add("q_linear", flat, w, m, name="fc", x_zero=-5, y_zero=0, lo=0, hi=0, to="float32", bound=1 << 24)
    real = b.add("dequantize_linear", e, scale, zero, axis=0, block_size=0)
    return b.finish({"y": y, "mean": mean, "map": real})


def inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {v.name: rng.normal(0, 3, [int(d) for d in v.shape]).astype(np.float32) for v in graph.inputs}
