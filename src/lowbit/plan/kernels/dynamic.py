"""Activations quantized at run time: quantize_rows_f32_s8, and int8 layers behind it, whose sums are scaled by rows and channels."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from lowbit.ir.graph import Attr, Node, Value
from lowbit.plan.kernels.call import KERNELS, Call, Context, Data, ints, is_int8, lowers
from lowbit.types import Array, TensorType


@lowers("quantize_rows")
def quantize_rows(node: Node, ctx: Context) -> list[Call] | None:
    x = node.inputs[0]
    if x is None or x.type.dtype.name != "float32":
        return None
    size, rows = int(x.shape[-1]), prod(int(d) for d in x.shape[:-1])
    return [Call(ctx.kernel("quantize_rows_f32_s8"), {"size": size}, (ctx.argument(x), *node.outputs), rows, rows * size * 0.3)]


@dataclass(frozen=True)
class _With(Context):
    """A context that knows one constant more."""

    value: Value | None = None
    data: Array | None = None

    def constant(self, value: Value | None) -> Array | None:
        return self.data if value is not None and value is self.value else super().constant(value)


def real_bias(bias: Value | None, ctx: Context, n: int) -> Data | None:
    """The bias of a scaled sum; zeros where there is none, which change no bit (a sum that began at +0 is never -0)."""
    data = ctx.constant(bias)
    if bias is not None and data is None:
        return None
    return Data(np.zeros(n, np.float32) if data is None else data)


@lowers("q_linear_rows")
def linear_rows(node: Node, ctx: Context) -> list[Call] | None:
    """The sums of an int8 layer as floats, fl32(acc) × 1, then their scales, in place."""
    x, x_scale, w, scales = node.inputs[0], node.inputs[1], node.inputs[2], ctx.constant(node.inputs[3])
    if x is None or x_scale is None or w is None or scales is None or ints(node, "block")["block"] or not is_int8(x, w):
        return None
    n, rows = int(w.shape[0]), prod(int(d) for d in x.shape[:-1])
    bias = real_bias(node.input(4), ctx, n)
    one = Value(f"{w.name}:one", TensorType((1,), "float32"))
    attrs: dict[str, Attr] = {"x_zero": 0, "y_zero": 0, "lo": 0, "hi": 0, "to": "float32", "bound": node.attrs["bound"]}
    sums = KERNELS["q_linear"](
        Node("q_linear", (x, w, one, None), attrs, node.name, node.outputs),
        _With(ctx.graph, ctx.target, ctx.packed, one, np.ones(1, np.float32)),
    )
    if sums is None or bias is None:
        return None
    args = (node.output, ctx.argument(x_scale), Data(np.ascontiguousarray(scales.reshape(n))), bias, node.output)
    return [*sums, Call(ctx.kernel("scale_rows_f32"), {"n": n}, args, rows, rows * n * 0.15, macs=0)]
