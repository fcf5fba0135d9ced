"""Layers whose weights are signs and powers of two, in portable C: products are shifts (csrc/log/log_weights.h), weights four bits each.

Vector units multiply as fast as they shift, so the kernels of int8 compute these layers there, with the same bits.
"""

from __future__ import annotations

from math import prod

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import MANY, Context, Data, KernelCall, ints, kernels_for, short
from lowbit.plan.kernels.products import clamp, convolved, in_integers, per_channel, two_spatial
from lowbit.plan.plan import Param
from lowbit.types import Array

MACS_PER_NS = 0.5
EXACT = 1 << 24  # sums below it are float32 without rounding
SHIFTS = -6, 30  # as csrc/log/log_weights.h says
COLUMN = {
    "batch": 1, "in_w": 1, "out_w": 1, "kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1, "pad_h": 0, "pad_w": 0,
    "dilation_h": 1, "dilation_w": 1,
}  # fmt: skip


def are_powers(w: Array) -> bool:
    """Whether all weights are 0 or ±2^e, e = 0 … 6."""
    magnitude = np.abs(w.astype(np.int16))
    return bool(np.all((magnitude & (magnitude - 1)) == 0)) and int(magnitude.max(initial=0)) <= 64


def pack(w: Array) -> Array:
    """Weights (channels, k) as nibbles of sign and exponent."""
    n, k = w.shape
    magnitude = np.abs(w.astype(np.int32))
    _, exponent = np.frexp(magnitude.astype(np.float64))  # 2^e is 0.5 · 2^(e + 1), and 0 has 0
    codes = np.zeros((n, -(-k // 2) * 2), np.uint8)
    codes[:, :k] = exponent | np.where(w < 0, 8, 0)
    return np.ascontiguousarray(codes[:, ::2] | codes[:, 1::2] << 4)


def shift_of(multiplier: Array, bound: int) -> Array | None:
    """The shifts that stand for the multipliers, if they are powers of two in range and sums are exact."""
    fraction, exponent = np.frexp(multiplier.astype(np.float64))
    shift = 1 - exponent
    if bound >= EXACT or not np.all(fraction == 0.5) or shift.min(initial=0) < SHIFTS[0]:
        return None
    return np.minimum(shift, SHIFTS[1]).astype(np.int32)


def log_call(node: Node, ctx: Context, x: Value, g: dict[str, int], groups: int, w: Array) -> KernelCall:
    """The call for weights (channels, taps, depth)."""
    out_c, taps, depth = w.shape
    wv = node.inputs[1]
    assert wv is not None
    bias, multiplier = per_channel(node, ctx, out_c)
    shift = shift_of(multiplier.array, ints(node, "bound")["bound"]) if short(node.output) == "s8" else None
    kernel = ctx.kernel("conv_shift_s8" if shift is not None else f"conv_log_{short(node.output)}")
    data = ctx.once(wv, "signs and exponents", make=lambda: pack(w.reshape(out_c, -1)))
    params: dict[str, Param] = {
        **g, "in_c": depth * groups, "out_c": out_c, "depth": depth, "each": out_c // groups, "out_stride": out_c, **clamp(node),
    }  # fmt: skip
    items = g["batch"] * g["out_h"]
    cost = items * g["out_w"] * taps * depth * out_c / MACS_PER_NS
    args = (ctx.argument(x), data, bias, multiplier if shift is None else Data(shift), node.output)
    return KernelCall(kernel, params, args, items, cost, parts=MANY, item_elements=g["out_w"] * out_c)


def shifted(node: Node, ctx: Context) -> Array | None:
    """The weights, if the layer is computed by shifts: portable kernels, int8 weights that are powers, results that the kernels give."""
    w, wv = ctx.constant(node.inputs[1]), node.inputs[1]
    if w is None or wv is None or wv.type.dtype.name != "int8" or ctx.kernel("conv_s8").isa != "ref":
        return None
    return w if in_integers(node, ctx) and short(node.output) in ("s8", "f32") and are_powers(w) else None


@kernels_for("q_linear", first=True)
def linear(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, w = node.inputs[0], shifted(node, ctx)
    if x is None or w is None:
        return None
    rows = prod(int(d) for d in x.shape[:-1])
    return [log_call(node, ctx, x, {**COLUMN, "in_h": rows, "out_h": rows}, 1, w[:, None, :])]


@kernels_for("q_conv_nhwc", first=True)
def conv(node: Node, ctx: Context) -> list[KernelCall] | None:
    g, x, w = two_spatial(node), node.inputs[0], shifted(node, ctx)
    if g is None or x is None or w is None:
        return None
    c = convolved(node, g, w)
    out_c, depth = c.w4.shape[:2]
    return [log_call(node, ctx, x, g, c.groups, np.ascontiguousarray(c.w4.transpose(0, 2, 3, 1)).reshape(out_c, -1, depth))]
