"""Recurrent layers of floats with the usual activations: lstm_f32, gru_f32."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import Context, Data, KernelCall, Scratch, kernels_for
from lowbit.plan.kernels.float_products import is_float, pack
from lowbit.plan.kernels.movement import dense, shape_of
from lowbit.plan.plan import Param

ROWS = 6
AT_ONCE = 48  # rows of inputs that are multiplied together


def usual(node: Node, activations: tuple[str, ...]) -> bool:
    """Whether nothing is asked of the layer but weights, bias and a first state."""
    a: Any = node.attrs
    names = tuple(n.lower() for n in a["activations"])
    directions = 2 if a["direction"] == "bidirectional" else 1
    return names == activations * directions and a["clip"] is None and not a.get("input_forget", False)


def geometry(node: Node, x: Value) -> dict[str, Param]:
    a: Any = node.attrs
    batch_first = bool(a["layout"])
    directions = 2 if a["direction"] == "bidirectional" else 1
    first, second, inputs = shape_of(x)
    time, batch = (second, first) if batch_first else (first, second)
    by_x = dense(shape_of(x))
    by_y = dense(shape_of(node.outputs[0]))
    by_state = dense(shape_of(node.outputs[1]))
    return {
        "time": time, "batch": batch, "inputs": inputs, "hidden": int(a["hidden"]), "directions": directions,
        "backwards": int(a["direction"] == "reverse"), "linear_before_reset": int(bool(a.get("linear_before_reset", False))),
        "chunk": max(1, min(time, AT_ONCE // max(1, min(batch, ROWS)))),
        "x_stride": (by_x[1], by_x[0]) if batch_first else (by_x[0], by_x[1]),
        "y_stride": (by_y[1], by_y[2], by_y[0]) if batch_first else (by_y[0], by_y[1], by_y[2]),
        "state_stride": (by_state[1], by_state[0]) if batch_first else (by_state[0], by_state[1]),
    }  # fmt: skip


def state(ctx: Context, value: Value | None, like: Value) -> Value | Data:
    return ctx.argument(value) if value is not None else Data(np.zeros(shape_of(like), np.float32))


def recurrent(node: Node, ctx: Context, contract: str, gates: int) -> list[KernelCall] | None:
    x, wv, rv, bv = node.inputs[0], node.inputs[1], node.inputs[2], node.input(3)
    w, r, b = ctx.constant(wv), ctx.constant(rv), ctx.constant(bv)
    if x is None or wv is None or rv is None or not is_float(x) or w is None or r is None or (bv is not None and b is None):
        return None
    g: Any = geometry(node, x)
    size = gates * g["hidden"]
    kernel = ctx.kernel(contract)
    both = np.zeros((g["directions"], 2, size), np.float32) if b is None else b.reshape(g["directions"], 2, size)
    bias = Data(np.ascontiguousarray(both.sum(axis=1) if gates == 4 else both))
    weights = [ctx.once(v, "panels", kernel.isa, make=lambda d=d: pack(kernel.isa, d)) for v, d in ((wv, w), (rv, r))]  # type: ignore[misc]
    lasts = node.outputs[1:]
    firsts = [state(ctx, node.input(i), lasts[0]) for i in ((4, 5) if gates == 4 else (4,))]
    scratch = Scratch(24 * (size * (g["chunk"] + 2) + 4 * g["hidden"]))
    items = g["directions"] * -(-g["batch"] // ROWS)
    cost = g["time"] * g["batch"] * size * g["directions"] * (g["inputs"] + g["hidden"]) / 12
    args = (ctx.argument(x), *weights, bias, *firsts, node.outputs[0], *lasts, scratch)
    return [KernelCall(kernel, g, args, items, cost)]


@kernels_for("lstm")
def lstm(node: Node, ctx: Context) -> list[KernelCall] | None:
    if not usual(node, ("sigmoid", "tanh", "tanh")) or node.input(6) is not None or node.input(7) is not None:
        return None
    return recurrent(node, ctx, "lstm_f32", 4)


@kernels_for("gru")
def gru(node: Node, ctx: Context) -> list[KernelCall] | None:
    if not usual(node, ("sigmoid", "tanh")) or node.input(5) is not None or node.input(6) is not None:
        return None
    return recurrent(node, ctx, "gru_f32", 3)
