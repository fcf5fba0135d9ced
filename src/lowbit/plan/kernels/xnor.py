"""Layers of binary activations and binary weights: their products are counted as bits (csrc/binary/binary.h).

Activations are bytes of -1 and +1 between ops. A call packs them into bits, the next one multiplies. The file's name comes after int4.py,
so that these kernels are asked first. Layers with groups or int16 results stay with the kernels of bytes, which give the same bits.
"""

from __future__ import annotations

from math import prod

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import MANY, Context, KernelCall, ints, kernels_for, short
from lowbit.plan.kernels.elementwise import size_of
from lowbit.plan.kernels.products import convolved, in_integers, per_channel, two_spatial
from lowbit.plan.pages import aligned
from lowbit.plan.plan import Param
from lowbit.types import Array, TensorType

PANEL = 8  # channels whose words stand together, but for `ref`
MACS_PER_NS = {"avx512popcnt": 600.0, "avx2": 150.0}
ONE_ROW = {
    "batch": 1, "in_h": 1, "out_h": 1, "kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1, "pad_h": 0, "pad_w": 0,
    "dilation_h": 1, "dilation_w": 1,
}  # fmt: skip


def is_binary(value: Value | None) -> bool:
    return value is not None and value.type.dtype.name == "binary"


def multiplies_bits(node: Node, ctx: Context) -> bool:
    """Whether both operands are binary and the result is one that the kernels give."""
    both = is_binary(node.inputs[0]) and is_binary(node.inputs[1])
    return both and in_integers(node, ctx) and short(node.output) in ("s8", "f32")


def words(k: int) -> int:
    """Words of 64 bits in a run."""
    return -(-k // 64)


def pack(isa: str, w: Array) -> Array:
    """Weights (channels, taps, k) as runs of bits in the layout of the instruction set."""
    n, taps, k = w.shape
    full = np.zeros((n, taps, words(k) * 64), np.uint8)
    full[:, :, :k] = w > 0
    runs = np.packbits(full, axis=-1, bitorder="little").reshape(n, taps * words(k), 8)
    if isa == "ref":
        return runs.reshape(n, -1)
    panels = -(-n // PANEL)
    out = aligned(panels * PANEL * taps * words(k) * 8)
    panel = np.zeros((panels * PANEL, taps * words(k), 8), np.uint8)
    panel[:n] = runs
    out[:] = panel.reshape(panels, PANEL, taps * words(k), 8).transpose(0, 2, 1, 3).reshape(-1)
    return out


def bit_calls(node: Node, ctx: Context, x: Value, g: dict[str, int], w: Array) -> list[KernelCall]:
    """The activations packed, then multiplied by weights (channels, taps, in_c)."""
    out_c, taps, in_c = w.shape
    wv = node.inputs[1]
    assert wv is not None
    pixels, results = g["batch"] * g["in_h"] * g["in_w"], g["batch"] * g["out_h"] * g["out_w"]
    bits = Value(f"{node.output.name}:bits", TensorType((pixels * words(in_c) * 8,), "uint8"))
    packed = KernelCall(ctx.kernel("pack_s8_b1"), {"k": in_c}, (ctx.argument(x), bits), pixels, pixels * in_c * 0.05, macs=0)
    kernel = ctx.kernel(f"conv_b1_{short(node.output)}")
    layout = "ref" if kernel.isa == "ref" else "panels"
    data = ctx.once(wv, "bits", layout, make=lambda: pack(kernel.isa, w))
    threads = ctx.target.threads
    block = max(1, min(64, -(-results // (4 * threads)))) if threads > 1 else max(1, results)
    bias, multiplier = per_channel(node, ctx, out_c)
    params: dict[str, Param] = {**g, "in_c": in_c, "out_c": out_c, "block": block, "out_stride": out_c, **ints(node, "y_zero", "lo", "hi")}
    cost = results * taps * in_c * out_c / MACS_PER_NS.get(kernel.isa, 10.0)
    args = (bits, data, bias, multiplier, node.output)
    items = -(-results // block)
    return [packed, KernelCall(kernel, params, args, items, cost, parts=MANY, item_elements=block * out_c)]


@kernels_for("q_linear", first=True)
def linear(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, w = node.inputs[0], ctx.constant(node.inputs[1])
    if x is None or w is None or not multiplies_bits(node, ctx):
        return None
    rows = prod(int(d) for d in x.shape[:-1])
    return bit_calls(node, ctx, x, {**ONE_ROW, "in_w": rows, "out_w": rows}, w[:, None, :])


@kernels_for("q_conv_nhwc", first=True)
def conv(node: Node, ctx: Context) -> list[KernelCall] | None:
    g, x, w = two_spatial(node), node.inputs[0], ctx.constant(node.inputs[1])
    if g is None or x is None or w is None or not multiplies_bits(node, ctx):
        return None
    c = convolved(node, g, w)
    if c.groups != 1:
        return None
    out_c, in_c = c.w4.shape[:2]
    return bit_calls(node, ctx, x, g, np.ascontiguousarray(c.w4.transpose(0, 2, 3, 1)).reshape(out_c, -1, in_c))


@kernels_for("quantize_linear", first=True)
def sign(node: Node, ctx: Context) -> list[KernelCall] | None:
    """The sign of reals. The scale does not matter."""
    x = node.inputs[0]
    if x is None or node.attrs["to"] != "binary" or x.type.dtype.name != "float32":
        return None
    n = size_of(x)
    return [KernelCall(ctx.kernel("sign_f32_s8"), {"unused": 0}, (ctx.argument(x), node.output), n, n * 0.1, elementwise=True)]
