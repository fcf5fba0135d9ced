"""Networks with planted problems, and samples for them."""

from __future__ import annotations

import numpy as np

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph
from lowbit.quantization.recipes import recipe
from lowbit.types import Array, TensorType

RULES = recipe("int8")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def f32(x: Array) -> Array:
    return np.asarray(x, np.float32)


def conv(b: Builder, x: object, w: Array, bias: Array | None, name: str, **options: object) -> object:
    attrs = {"stride": (1, 1), "pads": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, **options}
    parts = [b.constant(f32(w), name=f"{name}.weight")]
    parts += [b.constant(f32(bias), name=f"{name}.bias")] if bias is not None else []
    return b.add("conv", x, *parts, name=name, out=name, **attrs)


def outlier_network() -> Graph:
    """Two linear layers; one hidden channel is 200 times as large as the others, and its weights in the second as much smaller."""
    b = Builder("outlier")
    x = b.input("x", TensorType((8, 16), "float32"))
    scale = np.ones((24, 1))
    scale[5] = 200
    w1, w2 = rng(1).standard_normal((24, 16)) * scale / 4, rng(2).standard_normal((10, 24)) / scale.T / 5
    h = b.add("linear", x, b.constant(f32(w1), name="w1"), b.constant(f32(scale[:, 0] / 10), name="b1"), name="first", out="h")
    a = b.add("relu", h, name="act", out="a")
    y = b.add("linear", a, b.constant(f32(w2), name="w2"), b.constant(np.zeros(10, np.float32), name="b2"), name="second", out="y")
    return b.finish({"y": y})


def depthwise_network() -> Graph:
    """A depthwise layer whose channels span three orders of magnitude, and a sum behind it that cannot be scaled away."""
    b = Builder("depthwise")
    x = b.input("x", TensorType((2, 8, 6, 6), "float32"))
    spread = np.logspace(0, -3, 8).reshape(8, 1, 1, 1)
    d = conv(b, x, rng(3).standard_normal((8, 1, 3, 3)) * spread, None, "depth", groups=8)
    s = b.add("sigmoid", conv(b, d, rng(4).standard_normal((8, 8, 1, 1)) / spread.reshape(1, 8, 1, 1) / 8, np.zeros(8), "point"), out="s")
    t = b.add("tanh", d, out="t")
    y = conv(b, b.add("add", s, t, out="sum"), rng(5).standard_normal((4, 8, 1, 1)), np.zeros(4), "last")
    return b.finish({"y": y})


def samples(graph: Graph, count: int = 12, positive: bool = False) -> list[dict[str, Array]]:
    shape = tuple(int(d) for d in graph.inputs[0].shape)  # type: ignore[call-overload]
    found = (rng(100 + i).standard_normal(shape).astype(np.float32) for i in range(count))
    return [{"x": np.abs(x) + 1 if positive else x} for x in found]
