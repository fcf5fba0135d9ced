"""Networks that keep a state from call to call."""

from __future__ import annotations

import numpy as np

import lowbit
from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.types import Array, TensorType

rng = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)


def conv(b: Builder, x: Value, out: int, kernel: int, stride: int = 1, dilation: int = 1, groups: int = 1, pads: bool = True) -> Value:
    left = (kernel - 1) * dilation if pads else 0
    w = b.constant(normal(out, int(x.shape[1]) // groups, kernel))
    window = {"stride": (stride,), "pads": (left, 0), "dilation": (dilation,), "groups": groups}
    return b.add("conv", x, w, b.constant(normal(out)), name=f"conv{kernel}d{dilation}s{stride}", **window)


def recurrent(b: Builder, op: str, x: Value, direction: str = "forward", **others: bool) -> Value:
    """Five units on x (time, 1, 8)."""
    gates, d = (4 if op == "lstm" else 3), (2 if direction == "bidirectional" else 1)
    parts = [b.constant(normal(d, *s)) for s in ((5 * gates, 8), (5 * gates, 5), (10 * gates,))]
    functions = ("Sigmoid", "Tanh", "Tanh")[: gates - 1] * d
    return b.add(op, x, *parts, name=op, hidden=5, direction=direction, activations=functions, layout=0, **others)


def causal(time: int, op: str = "lstm", **others: bool) -> Graph:
    """Dilated, strided and depthwise causal convolutions with a residual sum, an LSTM or a GRU behind them, a layer for each time."""
    b = Builder("causal")
    x = b.input("x", TensorType((1, 3, time), "float32"))
    h = b.add("relu", conv(b, x, 8, 3))
    h = b.add("add", h, conv(b, h, 8, 3, dilation=2), name="residual")
    h = b.add("pad", h, pads=(0, 0, 2, 0, 0, 0), mode="constant", value=0.0, name="pad")
    h = b.add("relu", conv(b, h, 8, 3, groups=8, pads=False))
    h = conv(b, h, 8, 4, stride=2)
    h = b.add("transpose", h, perm=(2, 0, 1))
    y = b.add("reshape", recurrent(b, op, h, **others), shape=(time // 2, 1, 5))
    return b.finish({"y": b.add("linear", y, b.constant(normal(4, 5)), b.constant(normal(4)), name="head")})


def quantized(time: int, recipe: str, op: str = "lstm", **others: bool) -> tuple[Graph, Array]:
    global rng
    rng = np.random.default_rng(7)
    g = causal(time, op, **others)
    x = np.random.default_rng(1).normal(size=(1, 3, time)).astype(np.float32)
    return (g if recipe == "float" else lowbit.quantize(g, [{"x": x}], recipe=recipe, guard=False)), x


def delays() -> Graph:
    """y = x + h, and a line of delays: h becomes x, d becomes h, and e stays."""
    b = Builder("delays")
    x, h, d, e = (b.input(n, TensorType((1, 4), "float32")) for n in "xhde")
    return b.finish({"y": b.add("mul", b.add("add", x, h), b.add("add", d, e)), "h2": x, "d2": h, "e2": e})
