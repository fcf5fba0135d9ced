"""Linear layers and convolutions with 4-bit weights, which stay packed (csrc/int4/int4.h)."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import MANY, SEVERAL, Context, Data, KernelCall, Scratch, ints, is_int8, kernels_for, short
from lowbit.plan.kernels.convolutions import FEW_CHANNELS, way_of
from lowbit.plan.kernels.dynamic import real_bias
from lowbit.plan.kernels.packing import ask, pack_by
from lowbit.plan.kernels.products import PANEL, PLAIN, convolved, in_integers, per_channel, two_spatial
from lowbit.plan.plan import Param
from lowbit.types import Array

FEW_ROWS = 4  # for which reading weights takes longer than multiplying them
TILE = 6  # rows
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


# -- asked of C (csrc/int4/int4_pack.h) -------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """Bytes: of packed weights and scales, and of the scratch of linear layers and of convolutions."""

    weights: int
    scales: int
    linear: int
    windows: int


def sizes(isa: str, rows: int, k: int, n: int, segment: int) -> Sizes:
    return Sizes(*ask("w4_sizes", isa, {"rows": rows, "k": k, "n": n, "segment": segment}, 4))


def pack(isa: str, w: Array, segment: int) -> Array:
    """Weights (n, k) two a byte, in the layout of the instruction set."""
    n, k = w.shape
    packed = pack_by("w4_pack", isa, {"k": k, "n": n, "segment": segment}, w, sizes(isa, 0, k, n, segment).weights)
    return packed.reshape(n, -(-k // 2)) if isa in PLAIN else packed


def pack_scales(isa: str, scales: Array, k: int, segment: int) -> Array:
    """Scales (n, segments) in the layout of the instruction set."""
    if isa in PLAIN:
        return np.ascontiguousarray(scales, np.float32)
    params, size = {"k": k, "n": len(scales), "segment": segment}, sizes(isa, 0, k, len(scales), segment).scales
    return pack_by("w4_pack_scales", isa, params, scales.astype(np.float32), size, "float32").reshape(-1, scales.shape[1], 16)


def chunk_of(w: Array, segment: int, least: int, x_zero: int) -> int:
    """How many k may be summed in 16 bits, for activations `least` … 127 of that zero point (csrc/int4/int4.h)."""
    n, k = w.shape
    return ask("w4_chunk", "ref", {"k": k, "n": n, "segment": segment, "least": least, "x_zero": x_zero}, 1, w)[0]


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
    args = (ctx.argument(x), data, start, multiplier, node.output, Scratch(sizes(kernel.isa, block, k, n, max(k, 1)).linear))
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
    rest = (ctx.once(scales, "w4 scales", kernel.isa, make=lambda: pack_scales(kernel.isa, factors, k, segment)), bias, node.output)
    weights = (ctx.argument(x), data) if x_scale is None else (ctx.argument(x), ctx.argument(x_scale), data)
    return KernelCall(
        kernel, params, (*weights, *rest, Scratch(sizes(kernel.isa, block, k, n, segment).linear)), items, rows * k * n / MACS_PER_NS
    )


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
    if in_c < FEW_CHANNELS or (pixels >= FEW_PIXELS and node.attrs["to"] == "int8" and way_of(node, ctx, g, w4) == "tiles"):
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
    room = Scratch(sizes(kernel.isa, block, k, out_c, max(k, 1)).windows)
    args = (ctx.argument(x), data, start, multiplier, node.output, room)
    return KernelCall(kernel, params, args, -(-pixels // block), pixels * k * out_c / MACS_PER_NS, parts=MANY)
