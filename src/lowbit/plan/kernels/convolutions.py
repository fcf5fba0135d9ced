"""Convolutions of 8 bits: conv_s8, and kernels that do some faster: Winograd, depthwise, few channels, 1×1 as a linear layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import MANY, SEVERAL, Context, KernelCall, Scratch, ints, kernels_for, short
from lowbit.plan.kernels.packing import ask, pack_by
from lowbit.plan.kernels.products import (
    DOT4,
    FASTER,
    MACS_PER_NS,
    PANEL,
    PLAIN,
    block_of,
    clamp,
    convolved,
    in_integers,
    layout_of,
    linear_call,
    pack,
    per_channel,
    sizes,
    two_spatial,
)
from lowbit.plan.plan import Param
from lowbit.types import Array


@kernels_for("q_conv_nhwc")
def conv(node: Node, ctx: Context) -> list[KernelCall] | None:
    g = two_spatial(node)
    if g is None or not in_integers(node, ctx):
        return None
    x, wv, w = node.inputs[0], node.inputs[1], ctx.constant(node.inputs[1])
    assert x is not None and wv is not None and w is not None
    c = convolved(node, g, w)
    w4, groups, in_c, pixels = c.w4, c.groups, c.in_c, c.pixels
    out_c, depth, kernel_h, kernel_w = w4.shape
    if c.pointwise:
        return [linear_call(node, ctx, x, pixels, in_c, out_c, w4.reshape(out_c, in_c))]
    if depth == 1 and groups == out_c:
        if node.attrs["to"] == "int8":
            return [depthwise(node, ctx, g, wv, w4)]
        if ctx.kernel("dwconv_s16").isa not in PLAIN:
            return None  # faster in 16 bits than as so many products of one column
    if groups == 1 and node.attrs["to"] == "int8":
        way = way_of(node, ctx, g, w4)
        if way == "tiles":
            return [conv_by_tiles(node, ctx, g, wv, w4)]
        if way == "few channels":
            return [few_channels(node, ctx, g, wv, w4)]
        if way == "stride-2 winograd":
            return [stride2_winograd(node, ctx, g, wv, w4)]
    kernel = ctx.kernel(f"conv_{short(x, node.output)}")
    k = kernel_h * kernel_w * depth
    rows = w4.transpose(0, 2, 3, 1).reshape(groups, out_c // groups, k)
    layout, packed_for, activations = layout_of(node, kernel.isa, pixels)
    data = ctx.once(wv, "conv", kernel.isa, layout, str(groups), make=lambda: pack(kernel.isa, rows, packed_for, activations))
    block = block_of(kernel.isa, pixels, k, activations, ctx.target.threads)
    bias, multiplier = per_channel(node, ctx, out_c)
    params: dict[str, Param] = {**g, "in_c": in_c, "out_c": out_c, "groups": groups, "block": block, "out_stride": out_c, **clamp(node)}
    scratch = window_scratch(kernel.isa, block, k, out_c, groups)
    cost = pixels * out_c * k / FASTER.get(kernel.isa, MACS_PER_NS)
    args = (ctx.argument(x), data, bias, multiplier, node.output, scratch)
    return [KernelCall(kernel, params, args, -(-pixels // block), cost, parts=MANY, item_elements=block * out_c)]


def window_scratch(isa: str, block: int, k: int, out_c: int, groups: int) -> Scratch:
    """The memory in which windows become rows of k elements, as csrc/conv/conv.h says."""
    cortex = {"ref": 0, "armdsp": 2 * k, "mve": 4 * out_c + k}
    return Scratch(cortex[isa] if isa in cortex else sizes(isa, block, k, out_c // groups)[1] + -(-k // 64) * 64)


FEW_CHANNELS = 16  # with more, a row of the window is long enough to be copied
SHORT_RUN = 8  # with fewer bytes in a row of the window, copying it costs what a second thread saves


def way_of(node: Node, ctx: Context, g: dict[str, Any], w4: Array) -> str:
    """How a convolution without groups is computed fastest, of the ways that are exact."""
    shape = (g["kernel_h"], g["kernel_w"], g["stride_h"], g["stride_w"], g["dilation_h"], g["dilation_w"])
    in_c, few = w4.shape[1], ctx.kernel("conv_few_channels_s8").isa
    if in_c < FEW_CHANNELS and g["dilation_w"] == 1 and few != "ref":
        halved = shape[2:] == (2, 2, 1, 1) and in_c <= 4 and 6 < largest_kernel(g) <= 8
        if halved and few not in DOT4 and ctx.kernel("conv_stride2_winograd_s8").isa != "ref":  # four products at once beat fewer products
            return "stride-2 winograd"
        idle = g["batch"] * g["out_h"] < ctx.target.threads  # an item is a row of the output, one of conv_s8 a block of pixels
        return "windows" if idle and g["kernel_w"] * in_c >= SHORT_RUN else "few channels"
    if ctx.kernel("conv3x3_s8").isa == "ref" or shape != (3, 3, 1, 1, 1, 1) or in_c < PANEL:
        return "windows"
    return "tiles" if tile_sizes(node, ctx, g, w4).tile_h else "windows"


IMAGE = ("batch", "in_h", "in_w", "out_h", "out_w")


class TileSizes(NamedTuple):
    """What conv3x3_s8_sizes answers."""

    packed: int
    scratch: int
    tile_h: int
    block: int
    block_columns: int


def tile_sizes(node: Node, ctx: Context, g: dict[str, Any], w4: Array) -> TileSizes:
    largest = min(largest_sum(w4, ints(node, "x_zero")["x_zero"]), 2**31 - 1)
    params = {**{n: g[n] for n in IMAGE}, "in_c": w4.shape[1], "out_c": w4.shape[0], "threads": ctx.target.threads}
    return TileSizes(*ask("conv3x3_s8_sizes", ctx.kernel("conv3x3_s8").isa, params | {"tile_h": 0, "largest": largest}, 5))


def conv_by_tiles(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array) -> KernelCall:
    """conv3x3_s8 by the tiles that its sizes name."""
    kernel, sizes = ctx.kernel("conv3x3_s8"), tile_sizes(node, ctx, g, w4)
    out_c, in_c = w4.shape[:2]
    high, block, columns = sizes.tile_h, sizes.block, sizes.block_columns
    shape = {"in_c": in_c, "out_c": out_c, "tile_h": high}
    how = ("conv3x3", kernel.isa, str(high))
    data = ctx.once(wv, *how, make=lambda: pack_by("conv3x3_s8_pack", kernel.isa, shape, plain(w4), sizes.packed))
    tiles = g["batch"] * -(-g["out_w"] // 4) * -(-g["out_h"] // high)
    bias, multiplier = per_channel(node, ctx, out_c)
    names = (*IMAGE, "pad_h", "pad_w")
    params: dict[str, Param] = {
        **{n: g[n] for n in names}, **shape, "block": block, "block_columns": columns, "out_stride": out_c, **clamp(node),
    }  # fmt: skip
    x = node.inputs[0]
    assert x is not None
    args = (ctx.argument(x), data, bias, multiplier, node.output, Scratch(sizes.scratch))
    items, cost = -(-tiles // block) * -(-out_c // columns), tiles * 6 * (high + 2) * in_c * out_c / MACS_PER_NS
    return KernelCall(kernel, params, args, items, cost, parts=MANY if columns >= out_c else SEVERAL)


def largest_sum(w4: Array, x_zero: int) -> int:
    """The largest |Σ (x - x_zero)·w| of any int8 input and any output channel."""
    up = np.maximum(w4, 0).sum(axis=(1, 2, 3), dtype=np.int64)
    down = up - w4.sum(axis=(1, 2, 3), dtype=np.int64)
    most, least = 127 - x_zero, 128 + x_zero
    return int(np.maximum(most * up + least * down, least * up + most * down).max(initial=0))


def plain(w4: Array) -> Array:
    """Weights (outputs, inputs, rows, columns) as portable kernels take them: the inputs last."""
    return np.ascontiguousarray(w4.transpose(0, 2, 3, 1))


DEPTHWISE_MACS_PER_NS = {"avx512vnni": 50.0}  # others: 14


def depthwise(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array) -> KernelCall:
    kernel = ctx.kernel("dwconv_s8")
    channels = w4.shape[0]
    shape = {**g, "channels": channels}
    packed, scratch, block, rows, shared = ask("dwconv_s8_sizes", kernel.isa, shape, 5)
    how = ("depthwise", kernel.isa, size_of(w4), str(g["stride_h"]), str(g["dilation_h"]))
    rows_first = np.ascontiguousarray(w4[:, 0].transpose(1, 2, 0))
    as_it_is = kernel.isa in PLAIN
    data = ctx.once(wv, *how, make=lambda: rows_first if as_it_is else pack_by("dwconv_s8_pack", kernel.isa, shape, rows_first, packed))
    bias, multiplier = per_channel(node, ctx, channels)
    params: dict[str, Param] = {**shape, "block": block, "block_rows": rows, "out_stride": channels, **clamp(node)}
    items = g["batch"] * g["out_h"]
    x = node.inputs[0]
    assert x is not None
    cost = items * g["out_w"] * w4.size / DEPTHWISE_MACS_PER_NS.get(kernel.isa, 14.0)
    several = 2 if items >= 2 * ctx.target.threads * shared else 1  # rows of a block share what they read
    return KernelCall(kernel, params, (ctx.argument(x), data, bias, multiplier, node.output, Scratch(scratch)), items, cost, parts=several)


def largest_kernel(g: dict[str, Any]) -> int:
    """Rows or columns of a kernel that begins where strides of two do."""
    return int(max(g["kernel_h"] + g["pad_h"] % 2, g["kernel_w"] + g["pad_w"] % 2))


def few_channels(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array) -> KernelCall:
    """conv_few_channels_s8, for few channels."""
    call = of_few_channels(node, ctx, "conv_few_channels_s8", g, wv, w4)
    return replace(call, items=g["batch"] * g["out_h"], cost=g["batch"] * g["out_h"] * g["out_w"] * w4.size / MACS_PER_NS)


def stride2_winograd(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array) -> KernelCall:
    """conv_stride2_winograd_s8, for few channels and strides of 2: tiles of three rows and columns, 36 points each."""
    call = of_few_channels(node, ctx, "conv_stride2_winograd_s8", g, wv, w4)
    items, tiles = g["batch"] * -(-g["out_h"] // 3), -(-g["out_w"] // 3)
    return replace(call, items=items, cost=items * tiles * 36 * 4 * w4.shape[1] * w4.shape[0] / MACS_PER_NS)


def of_few_channels(node: Node, ctx: Context, contract: str, g: dict[str, Any], wv: Value, w4: Array) -> KernelCall:
    """A call of a kernel for few channels, whose items and cost are its own."""
    kernel = ctx.kernel(contract)
    out_c, in_c = w4.shape[:2]
    shape = {**g, "in_c": in_c, "out_c": out_c}
    packed, scratch, block = ask(f"{contract}_sizes", kernel.isa, shape, 3)
    how = (contract, kernel.isa, size_of(w4), str(g["pad_h"] % 2), str(g["pad_w"] % 2))
    data = ctx.once(wv, *how, make=lambda: pack_by(f"{contract}_pack", kernel.isa, shape, plain(w4), packed))
    bias, multiplier = per_channel(node, ctx, out_c)
    params: dict[str, Param] = {**shape, "groups": 1, "block": block, "out_stride": out_c, **clamp(node)}
    x = node.inputs[0]
    assert x is not None
    return KernelCall(kernel, params, (ctx.argument(x), data, bias, multiplier, node.output, Scratch(scratch)), 0, 0.0)


def size_of(w4: Array) -> str:
    """The kernel's rows and columns. A column may be a row in one shape of the network's inputs and a column in another."""
    return f"{w4.shape[2]}x{w4.shape[3]}"
