"""Convolutions of 8 bits: conv_s8, and kernels that do some faster: Winograd, depthwise, few channels, 1×1 as a linear layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import MANY, SEVERAL, Context, KernelCall, Scratch, ints, kernels_for, short
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
from lowbit.plan.pages import aligned
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
        if way in TILES:
            return [conv_by_tiles(node, ctx, g, wv, w4, TILES[way])]
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


G = np.array([[1, 0, 0], [-1, -1, -1], [-1, 1, -1], [1, 2, 4], [1, -2, 4], [0, 0, 1]], np.int32)  # as csrc/conv/conv.h says
H = {4: G, 2: np.array([[1, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 1]], np.int32)}
EXACT = {4: 1 << 25, 2: 1 << 27}  # sums below which tiles of that height are exact
TILES = {"tiles of 4": 4, "tiles of 2": 2}


class Tiles:
    """What conv3x3_s8 wants for tiles, where its weights are transformed when they are packed: avx2."""

    STEP = PANEL  # channels are rounded up to that
    ROWS = 6  # tiles that are multiplied at once
    MOST = 48
    IN_CACHE = 300 << 10  # bytes of transformed inputs that stay in the second-level cache
    FEWEST = 4  # with fewer the weights, eight times as many bytes, cost more than the multiplications saved
    FEW = 8  # with fewer the smaller weights of low tiles are worth more than the multiplications that high ones save

    def pack(self, w4: Array, high: int) -> tuple[tuple[str, ...], Callable[[], Array]]:
        """How the weights are packed, by name, and what does it."""
        return ("winograd by pairs", str(high)), lambda: pack_tiles(w4, high)

    def scratch(self, block: int, points: int, depth: int) -> int:
        return points * block * (2 * depth + 68)

    def best(self, exact: list[str], tiles: dict[str, int], pixels: int, in_c: int, out_c: int) -> str | None:
        """The fastest of the heights that are exact; None where windows are faster."""
        if not exact or tiles["tiles of 4"] < self.FEWEST:
            return None
        return exact[0] if tiles["tiles of 4"] >= self.FEW else exact[-1]


class WideTiles(Tiles):
    """Where weights stay int8 and are transformed for each block of tiles: avx512vnni. Costs are cycles, measured on a Sapphire Rapids."""

    STEP = 32
    ROWS = 14
    MOST = 7 * 14  # tiles for which transforming the weights once more costs little
    IN_CACHE = 600 << 10

    def pack(self, w4: Array, high: int) -> tuple[tuple[str, ...], Callable[[], Array]]:
        return ("pairs of channels",), lambda: pack_pairs(w4)

    def scratch(self, block: int, points: int, depth: int) -> int:
        return block * (points * (2 * depth + 128) + 64) + 49152

    def best(self, exact: list[str], tiles: dict[str, int], pixels: int, in_c: int, out_c: int) -> str | None:
        depth, columns = -(-in_c // self.STEP) * self.STEP, -(-out_c // PANEL) * PANEL

        def cost(way: str) -> float:
            products = max(tiles[way], 6) * depth * columns / 56  # vpdpwssd does 64
            return 6 * (TILES[way] + 2) * (products + depth * columns / 9 + tiles[way] * (depth / 5 + columns / 2.7))

        windows = 9 * pixels * in_c * out_c / 115  # vpdpbusd does 128
        return min((way for way in exact if cost(way) < windows), key=cost, default=None)


TILINGS = {"avx2": Tiles(), "avx512vnni": WideTiles()}
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
    largest = largest_sum(w4, ints(node, "x_zero")["x_zero"])
    exact = [way for way, high in TILES.items() if largest < EXACT[high]]
    across = g["batch"] * -(-g["out_w"] // 4)
    tiles = {way: across * -(-g["out_h"] // high) for way, high in TILES.items()}
    best = TILINGS[ctx.kernel("conv3x3_s8").isa].best(exact, tiles, g["batch"] * g["out_h"] * g["out_w"], in_c, w4.shape[0])
    return best or "windows"


def conv_by_tiles(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array, high: int) -> KernelCall:
    """conv3x3_s8 by tiles so high; they must be exact."""
    kernel = ctx.kernel("conv3x3_s8")
    out_c, in_c = w4.shape[:2]
    tiling = TILINGS[kernel.isa]
    across = g["batch"] * -(-g["out_w"] // 4)
    tiles, points = across * -(-g["out_h"] // high), 6 * (high + 2)
    depth = -(-in_c // tiling.STEP) * tiling.STEP
    how, make = tiling.pack(w4, high)
    data = ctx.once(wv, *how, make=make)
    most = max(2 * tiling.ROWS, tiling.IN_CACHE // (2 * points * depth) // tiling.ROWS * tiling.ROWS)
    blocks = -(-tiles // min(tiling.MOST, most + 4))  # a few more are better than a small block behind
    columns, threads = -(-out_c // PANEL) * PANEL, ctx.target.threads
    if threads > 1 and tiles < 24 * threads:  # few tiles: the threads share the channels, each weight is read once
        columns = max(PANEL, -(-out_c // (PANEL * threads)) * PANEL)
    elif threads > 1:
        blocks = -(-blocks // threads) * threads
    block = -(-tiles // blocks)
    bias, multiplier = per_channel(node, ctx, out_c)
    names = ("batch", "in_h", "in_w", "out_h", "out_w", "pad_h", "pad_w")
    params: dict[str, Param] = {
        **{n: g[n] for n in names}, "in_c": in_c, "out_c": out_c, "block": block, "block_columns": columns, "tile_h": high,
        "out_stride": out_c, **clamp(node),
    }  # fmt: skip
    x = node.inputs[0]
    assert x is not None
    args = (ctx.argument(x), data, bias, multiplier, node.output, Scratch(tiling.scratch(block, points, depth)))
    items, cost = -(-tiles // block) * -(-out_c // columns), tiles * points * in_c * out_c / MACS_PER_NS
    return KernelCall(kernel, params, args, items, cost, parts=MANY if columns >= out_c else SEVERAL)


def largest_sum(w4: Array, x_zero: int) -> int:
    """The largest |Σ (x - x_zero)·w| of any int8 input and any output channel."""
    up = np.maximum(w4, 0).sum(axis=(1, 2, 3), dtype=np.int64)
    down = up - w4.sum(axis=(1, 2, 3), dtype=np.int64)
    most, least = 127 - x_zero, 128 + x_zero
    return int(np.maximum(most * up + least * down, least * up + most * down).max(initial=0))


def pack_tiles(w4: Array, high: int) -> Array:
    """Winograd's weights H w G' as conv3x3_s8 wants them: (panels, points), of which each is 16 sums of products and then
    (channels / 4, 2, 16 outputs, 2 inputs)."""
    out_c, in_c = w4.shape[:2]
    points = 6 * (high + 2)
    panels, depth = -(-out_c // PANEL), -(-in_c // PANEL) * PANEL
    out = aligned(2 * panels * PANEL * points * (depth + 2))
    full = np.zeros((PANEL, points, depth), np.int16)
    for i, panel in enumerate(out.view(np.int16).reshape(panels, points, -1)):  # one by one: the wide products are large
        w = w4[PANEL * i : PANEL * (i + 1)].astype(np.int32)
        full[len(w) :] = 0
        full[: len(w), :, :in_c] = np.einsum("ij,ocjk,lk->oilc", H[high], w, G, optimize=True).reshape(len(w), points, in_c)
        fours = full.reshape(PANEL, points, depth // 4, 2, 2)
        products = fours[..., 0, :].astype(np.int64) * fours[..., 1, :]
        panel[:, : 2 * PANEL] = np.ascontiguousarray(-products.sum(axis=(2, 3)).T).astype(np.int32).view(np.int16)
        panel[:, 2 * PANEL :] = fours[..., ::-1, :].transpose(1, 2, 3, 0, 4).reshape(points, -1)
    return out


def pack_pairs(w4: Array) -> Array:
    """Weights as conv3x3_s8 of avx512vnni wants them: (panels, pairs of input channels, 3, 3, 16 outputs, 2 inputs)."""
    out_c, in_c = w4.shape[:2]
    panels, depth = -(-out_c // PANEL), -(-in_c // 32) * 32
    full = np.zeros((panels * PANEL, depth, 9), np.int8)
    full[:out_c, :in_c] = w4.reshape(out_c, in_c, 9)
    return packed(full.reshape(panels, PANEL, depth // 2, 2, 9).transpose(0, 2, 4, 1, 3))


RING = 16 << 10  # bytes of interleaved rows that stay in the first-level cache
DOT4_RING = 24 << 10  # the same where the cache is of 48 KB and all of a window's rows lie in it


def depthwise(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array) -> KernelCall:
    kernel = ctx.kernel("dwconv_s8")
    channels, high, wide = w4.shape[0], g["kernel_h"], g["kernel_w"]
    plain = np.ascontiguousarray(w4[:, 0].transpose(1, 2, 0))
    down = g["stride_h"], g["dilation_h"]
    if kernel.isa == "avx512vnni":
        data = ctx.once(wv, "depthwise", kernel.isa, size_of(w4), *map(str, down), make=lambda: pack_row_quads(plain, *down))
    else:
        data = ctx.once(wv, "depthwise", kernel.isa, size_of(w4), make=lambda: plain if kernel.isa in PLAIN else pack_row_pairs(plain))
    bias, multiplier = per_channel(node, ctx, channels)
    if kernel.isa == "avx512vnni":
        (block, scratch), rows, shared, macs_per_ns = row_quads(g, channels), 1, 4, 50
    else:
        block, rows, scratch = row_pairs(g, kernel.isa not in PLAIN)
        shared, macs_per_ns = rows, 14
    params: dict[str, Param] = {**g, "channels": channels, "block": block, "block_rows": rows, "out_stride": channels, **clamp(node)}
    items = g["batch"] * g["out_h"]
    x = node.inputs[0]
    assert x is not None
    cost = items * g["out_w"] * channels * high * wide / macs_per_ns
    several = 2 if items >= 2 * ctx.target.threads * shared else 1  # rows of a block share what they read
    return KernelCall(kernel, params, (ctx.argument(x), data, bias, multiplier, node.output, Scratch(scratch)), items, cost, parts=several)


def row_pairs(g: dict[str, Any], packed: bool) -> tuple[int, int, int]:
    """Pixels and rows that dwconv_s8 does at once where rows are taken in pairs, and the bytes of its scratch."""
    high, wide = g["kernel_h"], g["kernel_w"]
    seen = min(high, g["in_h"] + 1) // 2 + 1  # pairs of rows that are not all padding
    pixel, edge = 128 * seen, (wide - 1) * g["dilation_w"] + 1
    most = max(8, (RING // pixel - edge) // g["stride_w"] + 1)
    parts = max(1, -(-g["out_w"] // most))
    block = max(1, -(-g["out_w"] // (4 * parts)) * 4)  # of about equal width
    columns, rows = (block - 1) * g["stride_w"] + edge, 1
    if parts == 1 and packed and (high, wide, g["dilation_h"], g["dilation_w"]) == (3, 3, 1, 1):
        rows = max(1, min(g["out_h"], (2 * (RING // (128 * columns) - 1) - high) // g["stride_h"] + 1))
    return block, rows, 128 * (((rows - 1) * g["stride_h"] + high) // 2 + 1) * columns if packed else 0


def row_quads(g: dict[str, Any], channels: int) -> tuple[int, int]:
    """Pixels that it does at once where rows are taken in quads, and the bytes of its scratch."""
    position, seen = 256 * -(-g["kernel_h"] // 4) * g["stride_w"], (g["kernel_w"] - 1) * g["dilation_w"] // g["stride_w"] + 4
    room = DOT4_RING * max(1, 64 // (-(-channels // 16) * 16))  # few channels take less
    parts = -(-g["out_w"] // max(16, room // position - seen)) if g["out_w"] else 1
    block = max(1, -(-g["out_w"] // (4 * parts)) * 4)
    return block, position * (block + seen)


def pack_row_pairs(w: Array) -> Array:
    """Weights (rows, columns, channels) as dwconv_s8 wants them: sums, then pairs of rows from the first on, and from one before it on."""
    high, wide, channels = w.shape
    full = np.zeros((high + 2, wide, -(-channels // 32) * 32), np.int16)
    full[1 : high + 1, :, :channels] = w

    def pairs(first: int, count: int) -> Array:
        rows = full[first : first + 2 * count] if first + 2 * count <= high + 2 else np.concatenate([full[first:], full[:1]])
        return np.ascontiguousarray(rows.reshape(count, 2, wide, -1).transpose(0, 2, 3, 1))

    sums = full.sum(axis=(0, 1), dtype=np.int32)
    parts = [sums, pairs(1, -(-high // 2)), pairs(0, high // 2 + 1)]
    return packed(np.concatenate([p.reshape(-1).view(np.uint8) for p in parts]))


def pack_row_quads(w: Array, stride: int, dilation: int) -> Array:
    """Weights (rows, columns, channels) as dwconv_s8 wants them in quads of rows: sums, then weights, of blocks of 64 channels."""
    high, wide, channels = w.shape
    quads, starts = -(-high // 4), [0]
    if dilation == 1 and stride + high <= 4 * quads:
        starts = [0, stride]
    order = np.array([16 * (lane // 4) + 4 * group + lane % 4 for group in range(4) for lane in range(16)])
    sums, blocks = [], []
    for first in range(0, channels, 64):
        rest = channels - first
        size = 64 if rest > 32 else 32 if rest > 16 else 16
        at = max(0, min(first, channels - size)) + order % size
        own = np.where(at < channels, w[:, :, np.minimum(at, channels - 1)], 0).astype(np.int8)
        full = np.zeros((len(starts), 4 * quads, wide, 64), np.int8)
        for rows, start in zip(full, starts, strict=True):
            rows[start : start + high] = own
        sums.append(own.sum(axis=(0, 1), dtype=np.int32))
        blocks.append(full.reshape(len(starts), quads, 4, wide, 4, 16).transpose(4, 1, 3, 0, 5, 2))
    return packed(np.concatenate([np.ascontiguousarray(p).reshape(-1).view(np.uint8) for p in (*sums, *blocks)]))


ROWS_AT_ONCE = 12 << 10  # bytes of rows that stay in the first-level cache beside the weights


def few_channels(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array) -> KernelCall:
    """conv_few_channels_s8, for few channels."""
    kernel = ctx.kernel("conv_few_channels_s8")
    out_c, in_c = w4.shape[:2]
    bias, multiplier = per_channel(node, ctx, out_c)
    if kernel.isa in DOT4:
        data = ctx.once(wv, "few channels, dot4", size_of(w4), make=lambda: pack_run_quads(w4))
        pitch = -(-((max(g["out_w"], 16) - 1) * g["stride_w"] + g["kernel_w"]) * in_c // 64) * 64 + 64
    else:
        data = ctx.once(wv, "few channels", size_of(w4), make=lambda: pack_runs(w4))
        pitch = 2 * (-(-((g["out_w"] - 1) * g["stride_w"] + g["kernel_w"]) * in_c // 16) * 16 + 16)
    block = max(1, min(g["out_h"], ROWS_AT_ONCE // (pitch * g["stride_h"]) - g["kernel_h"] // g["stride_h"]))
    rows = (block - 1) * g["stride_h"] + (g["kernel_h"] - 1) * g["dilation_h"] + 1
    params: dict[str, Param] = {**g, "in_c": in_c, "out_c": out_c, "groups": 1, "block": block, "out_stride": out_c, **clamp(node)}
    items = g["batch"] * g["out_h"]
    x = node.inputs[0]
    assert x is not None
    cost = items * g["out_w"] * w4.size / MACS_PER_NS
    return KernelCall(kernel, params, (ctx.argument(x), data, bias, multiplier, node.output, Scratch(rows * pitch)), items, cost)


def pack_runs(w4: Array) -> Array:
    """Weights as conv_few_channels_s8 wants them: (panels, rows, pairs of a run, 16 outputs, 2)."""
    out_c, in_c, high, wide = w4.shape
    panels, run = -(-out_c // PANEL), wide * in_c
    full = np.zeros((panels * PANEL, high, -(-run // 2) * 2), np.int16)
    full[:out_c, :, :run] = w4.transpose(0, 2, 3, 1).reshape(out_c, high, run)
    return packed(full.reshape(panels, PANEL, high, -1, 2).transpose(0, 2, 3, 1, 4))


def pack_run_quads(w4: Array) -> Array:
    """Weights as conv_few_channels_s8 of avx512vnni wants them.

    Sums of each output's, then (panels, rows, fours of a run, 16 outputs, 4).
    """
    out_c, in_c, high, wide = w4.shape
    panels, run = -(-out_c // PANEL), wide * in_c
    full = np.zeros((panels * PANEL, high, -(-run // 4) * 4), np.int8)
    full[:out_c, :, :run] = w4.transpose(0, 2, 3, 1).reshape(out_c, high, run)
    quads = np.ascontiguousarray(full.reshape(panels, PANEL, high, -1, 4).transpose(0, 2, 3, 1, 4))
    return packed(np.concatenate([full.sum(axis=(1, 2), dtype=np.int32).view(np.uint8), quads.reshape(-1).view(np.uint8)]))


G4 = np.array([[1, 0, 0, 0], [-1, -1, -1, -1], [-1, 1, -1, 1], [1, 2, 4, 8], [1, -2, 4, -8], [0, 0, 0, 1]], np.int32)
STEM_TILES = 6  # tiles at once, whose products stay in the first-level cache


def largest_kernel(g: dict[str, Any]) -> int:
    """Rows or columns of a kernel that begins where strides of two do."""
    return int(max(g["kernel_h"] + g["pad_h"] % 2, g["kernel_w"] + g["pad_w"] % 2))


def stride2_winograd(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array) -> KernelCall:
    """conv_stride2_winograd_s8, for few channels and strides of 2."""
    kernel = ctx.kernel("conv_stride2_winograd_s8")
    out_c, in_c = w4.shape[:2]
    at = (g["pad_h"] % 2, g["pad_w"] % 2)
    data = ctx.once(wv, "stride-2 winograd", size_of(w4), *map(str, at), make=lambda: pack_stride2_winograd(w4, *at))
    bias, multiplier = per_channel(node, ctx, out_c)
    tiles, down = -(-g["out_w"] // 3), -(-g["out_h"] // 3)
    block = -(-tiles // -(-tiles // STEM_TILES))  # of about equal size
    params: dict[str, Param] = {**g, "in_c": in_c, "out_c": out_c, "groups": 1, "block": block, "out_stride": out_c, **clamp(node)}
    items = g["batch"] * down
    x = node.inputs[0]
    assert x is not None
    args = (ctx.argument(x), data, bias, multiplier, node.output, Scratch(576 * (tiles + 1) + 3456 * block))
    return KernelCall(kernel, params, args, items, items * tiles * 36 * 4 * in_c * out_c / MACS_PER_NS)


def pack_stride2_winograd(w4: Array, top: int, left: int) -> Array:
    """Weights as conv_stride2_winograd_s8 wants them: (panels, 36 points, pairs of the channels of 2x2 pixels, 16 outputs, 2)."""
    out_c, in_c, high, wide = w4.shape
    panels = -(-out_c // PANEL)
    full = np.zeros((panels * PANEL, in_c, 8, 8), np.int32)
    full[:out_c, :, top : top + high, left : left + wide] = w4
    cells = full.reshape(-1, in_c, 4, 2, 4, 2).transpose(0, 3, 5, 1, 2, 4).reshape(-1, 4 * in_c, 4, 4)
    u = np.einsum("ij,ocjk,lk->oilc", G4, cells, G4, optimize=True).astype(np.int16)
    return packed(u.reshape(panels, PANEL, 36, 2 * in_c, 2).transpose(0, 2, 3, 1, 4))


def size_of(w4: Array) -> str:
    """The kernel's rows and columns. A column may be a row in one shape of the network's inputs and a column in another."""
    return f"{w4.shape[2]}x{w4.shape[3]}"


def packed(ordered: Array) -> Array:
    """The bytes of an array, one behind the other, aligned."""
    out = aligned(ordered.nbytes)
    out[:] = np.ascontiguousarray(ordered).reshape(-1).view(np.uint8)
    return out
