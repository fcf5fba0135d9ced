"""Linear layers and convolutions with 4-bit weights, which stay packed (csrc/int4/int4.h)."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import MANY, SEVERAL, Context, Data, KernelCall, Scratch, ints, is_int8, kernels_for, short
from lowbit.plan.kernels.convolutions import FEW_CHANNELS, TILES, way_of
from lowbit.plan.kernels.dynamic import real_bias
from lowbit.plan.kernels.products import PANEL, PLAIN, convolved, in_integers, per_channel, two_spatial
from lowbit.plan.pages import aligned
from lowbit.plan.plan import Param
from lowbit.types import Array

FEW_ROWS = 4  # for which reading weights takes longer than multiplying them
GROUP = 32  # elements that kernels take at once
TILE = 6  # rows
LONGEST_CHUNK = 1024  # as deep as a panel in the first-level cache
MACS_PER_NS = 110.0
ROWS_IN_CACHE = 384 << 10  # bytes of rows that stay in the second-level cache while the weights pass
IN_CACHE = 1 << 20  # weights of a network that stay in the second-level cache from run to run, as bytes
FEW_PIXELS = 64  # with fewer, windows are as fast as Winograd's tiles, whose weights are 24 times as many bytes
COLD_ROWS = 32  # up to which reading takes longer than taking nibbles apart, where weights come from farther away
LARGEST_SCALE = 1e20  # beyond it a sum could leave float32: the interpreter's business


def four_bits(w: Value | None, ctx: Context) -> Array | None:
    """The weights, where they are constants of four bits or fewer."""
    data = ctx.constant(w)
    if w is None or data is None or w.type.dtype.bits > 4 or data.dtype != np.int8:
        return None
    return data if data.min(initial=0) >= -8 and data.max(initial=0) <= 7 else None


def as_bytes(ctx: Context, rows: int) -> bool:
    """Whether a layer with a scale for each channel is left to the kernels of int8, which give the same bits.

    VNNI multiplies bytes faster than nibbles, which must be taken apart; but nibbles are half as much to read, which counts where rows are
    few and caches do not hold the network.
    """
    if ctx.target.isas is not None or ctx.kernel("linear_s8").isa != "avx512vnni":
        return False
    cached = sum(c.data.size for c in ctx.graph.constants.values()) <= IN_CACHE
    return rows > (FEW_ROWS if cached else COLD_ROWS)


# -- layouts ----------------------------------------------------------------------------------------------------------------------


def cut(k: int, segment: int) -> tuple[int, int, int]:
    """The number of segments, their padded length, and the padded length of all."""
    segments = max(1, -(-k // segment))
    stride = -(-min(k, segment) // GROUP) * GROUP
    return segments, stride, (segments - 1) * stride + -(-(k - (segments - 1) * segment) // GROUP) * GROUP


def padded(w: Array, segment: int) -> Array:
    """Weights (n, k) with their segments padded: (n, depth)."""
    n, k = w.shape
    segments, stride, depth = cut(k, segment)
    if depth == k:
        return w
    full = np.zeros((n, segments * segment), np.int8)
    full[:, :k] = w
    out = np.zeros((n, segments, stride), np.int8)
    width = min(segment, stride)
    out[:, :, :width] = full.reshape(n, segments, segment)[:, :, :width]
    return out.reshape(n, -1)[:, :depth]


def pack(isa: str, w: Array, segment: int) -> Array:
    """Weights (n, k) two a byte, in the layout of the instruction set."""
    n, k = w.shape
    if isa in PLAIN:
        even = np.zeros((n, -(-k // 2) * 2), np.uint8)
        even[:, :k] = w & 15
        return np.ascontiguousarray(even[:, ::2] | even[:, 1::2] << 4)
    rows = padded(w, segment)
    panels, groups = -(-n // PANEL), rows.shape[1] // GROUP
    full = np.full((panels * PANEL, rows.shape[1]), 8, np.uint8)
    full[:n] = rows + 8
    ordered = full.reshape(panels, PANEL, groups, 2, 4, 4).transpose(3, 0, 2, 4, 1, 5)  # half, panel, group, step, channel, element
    out = aligned(full.size // 2)
    np.bitwise_or(ordered[0], ordered[1] << 4, out=out.reshape(ordered.shape[1:]))
    return out


def pack_scales(isa: str, scales: Array) -> Array:
    """Scales (n, segments) in the layout of the instruction set."""
    n, segments = scales.shape
    if isa in PLAIN:
        return np.ascontiguousarray(scales, np.float32)
    panels = -(-n // PANEL)
    full = np.zeros((panels * PANEL, segments), np.float32)
    full[:n] = scales
    return np.ascontiguousarray(full.reshape(panels, PANEL, segments).transpose(0, 2, 1))


def scratch(isa: str, rows: int, k: int, segment: int) -> Scratch:
    segments, stride, depth = cut(k, segment)
    if isa == "avx512vnni":
        return Scratch(rows * (depth + 224) + 36 * max(1024, stride) + 64 * segments + 256)
    return Scratch(0 if isa in PLAIN else rows * (depth + 160) + 18 * max(1024, stride) + 16 * segments)


# -- what is proved ---------------------------------------------------------------------------------------------------------------


def chunk_of(w: Array, segment: int, least: int, x_zero: int) -> int:
    """How many k may be summed in 16 bits, for activations `least` … 127 of that zero point (csrc/int4/int4.h)."""
    up, down = half_sums(np.maximum(w, 0), segment), half_sums(np.maximum(-w, 0), segment)
    above, below = 127 - x_zero, x_zero - least
    sides = above * up + below * down, below * up + above * down  # the largest sum of a group, and the least, negated

    def fits(groups: int) -> bool:
        return all(largest_run(side, groups) < 1 << 15 for side in sides)

    most, groups = up.shape[2], 1
    while GROUP * groups < LONGEST_CHUNK and fits(groups + 1):
        groups += 1
    if groups >= most:
        return GROUP * groups
    even = -(-most // -(-most // groups))  # as many chunks, of one length
    return GROUP * (even if fits(even) else groups)


def half_sums(w: Array, segment: int) -> NDArray[np.int64]:
    """Sums over both halves of each group of 32: (n, segments, groups of a segment, 2)."""
    segments, stride, depth = cut(w.shape[1], segment)
    sums = padded(w, segment).reshape(w.shape[0], depth // GROUP, 8, 2, 2).sum(axis=(2, 4), dtype=np.int64)
    full = np.zeros((w.shape[0], segments * stride // GROUP, 2), np.int64)
    full[:, : depth // GROUP] = sums
    return full.reshape(w.shape[0], segments, stride // GROUP, 2)


def largest_run(sums: Array, groups: int) -> int:
    """The largest sum of so many neighbouring groups, counted from the start of each segment."""
    runs = [sums[:, :, i : i + groups].sum(axis=2).max(initial=0) for i in range(0, sums.shape[2], groups)]
    return int(max(runs, default=0))


# -- calls ------------------------------------------------------------------------------------------------------------------------


@lru_cache(1024)
def blocks(rows: int, k: int, n: int, threads: int) -> tuple[int, int, int]:
    """Rows and columns of a block, and how many blocks there are."""
    most = min(192, max(8 * TILE, ROWS_IN_CACHE // max(k, 1) // TILE * TILE))
    count = max(1, -(-rows // most))
    shared = threads > 1 and rows >= 4 * TILE * threads
    if shared:
        count = -(-count // threads) * threads
    block = max(1, -(-rows // count))
    block = block if block <= TILE or shared else -(-block // TILE) * TILE
    columns = -(-max(n, 1) // PANEL) * PANEL
    if threads > 1 and rows <= block:  # a single block of rows: the threads share its columns
        columns = max(PANEL, -(-n // (PANEL * threads * 2)) * PANEL)
    return block, columns, -(-rows // block) * -(-n // columns)


def folded_bias(bias: Array, w: Array, x_zero: int) -> Array:
    """bias - x_zero · Σ w, modulo 2³²."""
    return (bias.astype(np.int64) - x_zero * w.sum(axis=1, dtype=np.int64)).astype(np.int32)


def channels(node: Node, ctx: Context, isa: str, wv: Value, w: Array) -> tuple[Data, int, Data, Data]:
    """Of a layer with a scale for each channel, for weights (n, k): weights, chunk, bias and multiplier."""
    segment = max(w.shape[1], 1)
    data = ctx.once(wv, "w4", isa, str(segment), make=lambda: pack(isa, w, segment))
    chunk = ctx.once(wv, "w4 chunk", str(segment), "-128", "0", make=lambda: np.asarray(chunk_of(w, segment, -128, 0)))
    bias, multiplier = per_channel(node, ctx, w.shape[0])
    return data, int(chunk.array), Data(folded_bias(bias.array, w, ints(node, "x_zero")["x_zero"])), multiplier


def linear_call(node: Node, ctx: Context, x: Value, rows: int, w: Array) -> KernelCall:
    """A layer with a scale for each channel, for weights (n, k)."""
    n, k = w.shape
    kernel, wv = ctx.kernel(f"linear_w4_{short(x, node.output)}"), node.inputs[1]
    assert wv is not None
    block, columns, items = blocks(rows, k, n, ctx.target.threads)
    data, chunk, start, multiplier = channels(node, ctx, kernel.isa, wv, w)
    params: dict[str, Param] = {
        "rows": rows, "k": k, "n": n, "block_rows": block, "block_columns": columns, "out_stride": n, "chunk": chunk,
        **ints(node, "y_zero", "lo", "hi"),
    }  # fmt: skip
    args = (ctx.argument(x), data, start, multiplier, node.output, scratch(kernel.isa, block, k, max(k, 1)))
    return KernelCall(kernel, params, args, items, rows * k * n / MACS_PER_NS, parts=MANY if columns >= n else SEVERAL)


@kernels_for("q_linear", first=True)
def linear(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, w = node.inputs[0], four_bits(node.inputs[1], ctx)
    if x is None or w is None or not in_integers(node, ctx):
        return None
    rows = prod(int(d) for d in x.shape[:-1])
    return None if as_bytes(ctx, rows) else [linear_call(node, ctx, x, rows, w)]


def scaled_call(
    node: Node, ctx: Context, contract: str, x: Value, x_scale: Value | None, wv: Value, scales: Value | None, bias: Data, w: Array
) -> KernelCall | None:
    """A layer whose sums are scaled segment by segment."""
    n, k = w.shape
    factors = ctx.constant(scales)
    if scales is None or factors is None or not np.all(np.abs(factors) < LARGEST_SCALE):
        return None
    kernel = ctx.kernel(contract)
    attrs = node.attrs
    segment = ints(node, "block")["block"] or max(k, 1)
    rows = prod(int(d) for d in x.shape[:-1])
    x_zero, least = (0, -127) if x_scale is not None else (ints(node, "x_zero")["x_zero"], -128)
    block, columns, items = blocks(rows, k, n, ctx.target.threads)
    data = ctx.once(wv, "w4", kernel.isa, str(segment), make=lambda: pack(kernel.isa, w, segment))
    how = ("w4 chunk", str(segment), str(least), str(x_zero))
    chunk = ctx.once(wv, *how, make=lambda: np.asarray(chunk_of(w, segment, least, x_zero)))
    params: dict[str, Param] = {
        "rows": rows, "k": k, "n": n, "segment": segment, "block_rows": block, "block_columns": columns, "out_stride": n,
        "chunk": int(chunk.array), "x_zero": x_zero, "y_scale": 1.0, "y_zero": 0, "lo": 0, "hi": 0,
    }  # fmt: skip
    if x_scale is None:
        params |= {"y_scale": float(attrs["y_scale"]), **ints(node, "y_zero", "lo", "hi")}  # type: ignore[arg-type]
    rest = (ctx.once(scales, "w4 scales", kernel.isa, make=lambda: pack_scales(kernel.isa, factors)), bias, node.output)
    weights = (ctx.argument(x), data) if x_scale is None else (ctx.argument(x), ctx.argument(x_scale), data)
    return KernelCall(kernel, params, (*weights, *rest, scratch(kernel.isa, block, k, segment)), items, rows * k * n / MACS_PER_NS)


@kernels_for("q_linear_blocks", first=True)
def linear_blocks(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, wv = node.inputs[0], node.inputs[1]
    w, contract = four_bits(wv, ctx), short(x, node.output)
    if x is None or wv is None or w is None or contract is None or not is_int8(x) or ints(node, "bound")["bound"] >= 2**31:
        return None
    bias = real_bias(node.input(3), ctx, w.shape[0])
    call = None if bias is None else scaled_call(node, ctx, f"linear_w4_blocks_{contract}", x, None, wv, node.inputs[2], bias, w)
    return None if call is None else [call]


@kernels_for("q_linear_rows", first=True)
def linear_rows(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, x_scale, wv = node.inputs[0], node.inputs[1], node.inputs[2]
    w = four_bits(wv, ctx)
    if x is None or x_scale is None or wv is None or w is None or not is_int8(x) or ints(node, "bound")["bound"] >= 2**31:
        return None
    bias = real_bias(node.input(4), ctx, w.shape[0])
    call = None if bias is None else scaled_call(node, ctx, "linear_w4_rows_f32", x, x_scale, wv, node.inputs[3], bias, w)
    return None if call is None else [call]


@kernels_for("q_conv_nhwc", first=True)
def conv(node: Node, ctx: Context) -> list[KernelCall] | None:
    """1x1 as linear layers, others by their windows; left alone where Winograd on unpacked weights is faster, or channels are few."""
    g, x, wv, w = two_spatial(node), node.inputs[0], node.inputs[1], four_bits(node.inputs[1], ctx)
    if g is None or x is None or wv is None or w is None or not in_integers(node, ctx):
        return None
    c = convolved(node, g, w)
    w4, pixels = c.w4, c.pixels
    out_c, in_c = w4.shape[:2]
    if c.groups != 1 or as_bytes(ctx, pixels):
        return None
    rows = np.ascontiguousarray(w4.transpose(0, 2, 3, 1)).reshape(out_c, -1)
    if c.pointwise:
        return [linear_call(node, ctx, x, pixels, rows)]
    if in_c < FEW_CHANNELS or (pixels >= FEW_PIXELS and node.attrs["to"] == "int8" and way_of(node, ctx, g, w4) in TILES):
        return None
    return [conv_call(node, ctx, x, g, pixels, rows, in_c)]


def conv_call(node: Node, ctx: Context, x: Value, g: dict[str, Any], pixels: int, rows: Array, in_c: int) -> KernelCall:
    out_c, k = rows.shape
    kernel, wv = ctx.kernel(f"conv_w4_{short(x, node.output)}"), node.inputs[1]
    assert wv is not None
    block = blocks(pixels, k, out_c, ctx.target.threads)[0]
    data, chunk, start, multiplier = channels(node, ctx, kernel.isa, wv, rows)
    params: dict[str, Param] = {
        **g, "in_c": in_c, "out_c": out_c, "block": block, "out_stride": out_c, "chunk": chunk,
        **ints(node, "x_zero", "y_zero", "lo", "hi"),
    }  # fmt: skip
    panels = scratch(kernel.isa, block, k, k).size
    room = Scratch(0 if kernel.isa == "ref" else k if kernel.isa in PLAIN else panels + -(-k // 64) * 64)
    args = (ctx.argument(x), data, start, multiplier, node.output, room)
    return KernelCall(kernel, params, args, -(-pixels // block), pixels * k * out_c / MACS_PER_NS, parts=MANY)
