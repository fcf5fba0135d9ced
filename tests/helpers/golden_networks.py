"""The networks whose generated C is kept in tests/codegen/golden."""

from __future__ import annotations

import numpy as np

from lowbit.ir.build import Builder
from lowbit.ir.graph import Graph, Value
from lowbit.types import TensorType

CLAMP = {"lo": -128, "hi": 127, "to": "int8", "bound": 1 << 16}


def weights(b: Builder, shape: tuple[int, ...], name: str) -> tuple[Value, Value, Value]:
    n, count = shape[0], int(np.prod(shape))
    w = b.constant((np.arange(count, dtype=np.int64) * 37 % 255 - 127).astype(np.int8).reshape(shape), name=f"{name}.weight")
    m = b.constant(np.float32(0.001) * np.arange(1, n + 1, dtype=np.float32), name=f"{name}.multiplier")
    return w, m, b.constant(np.arange(n, dtype=np.int32) * 100 - 50, name=f"{name}.bias")


def mlp(b: Builder) -> Value:
    x = b.input("x", TensorType((1, 4), "float32"))
    q = b.add("quantize_linear", x, b.constant(np.float32(0.125)), b.constant(np.int8(-3)), axis=0, block_size=0, to="int8")
    h = b.add("q_linear", q, *weights(b, (3, 4), "fc1"), name="fc1", x_zero=-3, y_zero=-128, **CLAMP)
    return b.add("q_linear", h, *weights(b, (2, 3), "fc2"), name="fc2", x_zero=-128, y_zero=0, **{**CLAMP, "to": "float32"})


def image(b: Builder) -> Value:
    x = b.input("image", TensorType((1, 2, 4, 4), "int8"))
    window = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1)}
    c = b.add("q_conv", x, *weights(b, (3, 2, 3, 3), "conv"), name="conv", **window, groups=1, x_zero=5, y_zero=0, **CLAMP)
    return b.add("max_pool", c, kernel=(2, 2), stride=(2, 2), pads=(0,) * 4, dilation=(1, 1), ceil_mode=False, name="pool")


def residual(b: Builder) -> Value:
    x = b.input("x", TensorType((2, 3), "int8"))
    h = b.add("q_linear", x, *weights(b, (3, 3), "body"), name="body", x_zero=0, y_zero=1, **CLAMP)
    return b.add("q_add", h, x, name="sum", x_zero=1, y_zero=0, z_zero=2, mx=0.5, my=0.75, lo=-128, hi=127, to="int8")


NETWORKS = {
    "mlp": (mlp, {"target": "portable"}),
    "image": (image, {"target": "cortex-m4", "channels_last": True, "io_in_arena": True}),
    "residual": (residual, {"target": "cortex-m0plus", "no_float": True}),
}


def graph(name: str) -> Graph:
    b = Builder(name)
    return b.finish({"y": NETWORKS[name][0](b)})
