"""Linear layers and convolutions in integers: conv_s8, dwconv_s8, linear_s8, and their float results."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import Call, Context, Data, Scratch, aligned, ints, is_int8, lowers, short
from lowbit.plan.plan import Param
from lowbit.runtime import native
from lowbit.types import Array

PANEL = 16  # output channels that kernels do at once
MACS_PER_NS = 60.0
ROWS_IN_CACHE = 384 << 10  # bytes of widened rows that stay in the second-level cache while the weights pass


def in_integers(node: Node, ctx: Context) -> bool:
    """Whether the kernels compute it: int8 activations, 8-bit constant weights, sums within 32 bits."""
    w, m = ctx.constant(node.inputs[1]), ctx.constant(node.inputs[2])
    if w is None or m is None or w.dtype != np.int8 or not is_int8(node.inputs[0]):
        return False
    finite = bool(np.isfinite(m).all())
    return finite and ints(node, "bound")["bound"] < 2**31 and short(node.output) is not None


def per_channel(node: Node, ctx: Context, channels: int) -> tuple[Data, Data]:
    """Bias and multiplier, one for each channel."""
    bias, m = ctx.constant(node.input(3)), ctx.constant(node.inputs[2])
    assert m is not None
    full = np.ascontiguousarray(np.broadcast_to(m, (channels,)), np.float32)
    return Data(np.zeros(channels, np.int32) if bias is None else bias), Data(full)


def clamp(node: Node) -> dict[str, int]:
    return ints(node, "x_zero", "y_zero", "lo", "hi")


@lru_cache(1024)
def sizes(isa: str, m: int, k: int, n: int) -> tuple[int, int]:
    """Bytes of packed weights (k, n), and of the scratch for m rows."""
    out = np.zeros(2, np.int64)
    next(kernel for kernel in native.of("gemm_s8_sizes") if kernel.isa == isa)({"m": m, "k": k, "n": n, "segment": max(1, k)}, out)
    return int(out[0]), int(out[1])


def pack(isa: str, rows: Array) -> Array:
    """Weights (groups, n, k) in the layout of the instruction set."""
    groups, n, k = rows.shape
    if isa == "ref":
        return np.ascontiguousarray(rows)
    kernel = next(kernel for kernel in native.of("gemm_s8_pack") if kernel.isa == isa)
    size = sizes(isa, 1, k, n)[0]
    out = aligned(groups * size)
    zeros = np.zeros(max(n, 1), np.int32)
    params = {"row_stride": 1, "column_stride": k, "k": k, "n": n, "segment": max(1, k), "b_unsigned": 0}
    for g in range(groups):
        kernel(params, np.ascontiguousarray(rows[g]), zeros, out[g * size : (g + 1) * size])
    return out


def row_block(rows: int, k: int, threads: int) -> int:
    """Rows that are done at once: as many as stay in the cache, in blocks of about equal size, some for each thread."""
    depth = max(16, -(-k // 16) * 16)
    most = min(192, max(32, ROWS_IN_CACHE // (2 * depth)))
    blocks = max(1, -(-rows // most))
    if threads > 1 and rows >= 8 * threads:
        blocks = -(-blocks // (2 * threads)) * 2 * threads
    return max(4, -(-rows // (blocks * 4)) * 4)


def linear_call(node: Node, ctx: Context, x: Value, rows: int, k: int, n: int, weights: Array) -> Call:
    kernel = ctx.kernel(f"linear_{short(x, node.output)}")
    threads = ctx.target.threads
    block = row_block(rows, k, threads)
    columns = -(-max(n, 1) // PANEL) * PANEL
    if threads > 1 and rows <= block:  # a single block of rows: the threads share its columns
        columns = max(PANEL, -(-n // (PANEL * threads * 2)) * PANEL)
    w = node.inputs[1]
    assert w is not None
    data = ctx.once(w, "gemm", kernel.isa, make=lambda: pack(kernel.isa, weights.reshape(1, n, k)))
    bias, multiplier = per_channel(node, ctx, n)
    params: dict[str, Param] = {
        "rows": rows, "k": k, "n": n, "block_rows": block, "block_columns": columns, "out_stride": n, **clamp(node),
    }  # fmt: skip
    items = -(-rows // block) * -(-n // columns)
    args = (ctx.argument(x), data, bias, multiplier, node.output, Scratch(sizes(kernel.isa, block, k, n)[1]))
    return Call(kernel, params, args, items, rows * k * n / MACS_PER_NS)


@lowers("q_linear")
def linear(node: Node, ctx: Context) -> list[Call] | None:
    x, w = node.inputs[0], ctx.constant(node.inputs[1])
    assert x is not None
    rows = prod(int(d) for d in x.shape[:-1])
    if w is not None and x.type.dtype.name == "int16":
        return wide_linear(node, ctx, x, rows, w)
    if w is None or not in_integers(node, ctx):
        return None
    n, k = w.shape
    return [linear_call(node, ctx, x, rows, k, n, w)]


def wide_linear(node: Node, ctx: Context, x: Value, rows: int, w: Array) -> list[Call] | None:
    """16-bit activations, weights of 8 or 16 bits: sums of 64 bits."""
    m, wv = ctx.constant(node.inputs[2]), node.inputs[1]
    contract = short(x, node.output)
    if m is None or wv is None or contract is None or not np.isfinite(m).all() or w.dtype not in (np.int8, np.int16):
        return None
    n, k = w.shape
    weights = ctx.once(wv, "int16", make=lambda: np.ascontiguousarray(w, np.int16))
    bias, multiplier = per_channel(node, ctx, n)
    params: dict[str, Param] = {
        "rows": rows, "k": k, "n": n, "block_rows": 8, "block_columns": PANEL, "out_stride": n, **clamp(node),
    }  # fmt: skip
    args = (ctx.argument(x), weights, Data(bias.array.astype(np.int64)), multiplier, node.output)
    return [Call(ctx.kernel(f"linear_{contract}"), params, args, -(-rows // 8) * -(-n // PANEL), rows * k * n * 1.0)]


def two_spatial(node: Node) -> dict[str, Any] | None:
    """The geometry of an image of one or two spatial axes; one axis is an image of height 1."""
    x, y = node.inputs[0], node.output
    assert x is not None
    rank = x.type.rank
    if rank not in (3, 4):
        return None
    one = rank == 3

    def pair(values: Any) -> tuple[int, int]:
        return (1, int(values[0])) if one else (int(values[0]), int(values[1]))

    stride, dilation = pair(node.attrs["stride"]), pair(node.attrs["dilation"])
    pads = node.attrs["pads"]
    pad = (0, int(pads[0])) if one else (int(pads[0]), int(pads[1]))  # type: ignore[index,arg-type]
    (in_h, in_w), (out_h, out_w) = pair(x.shape[1:]), pair(y.shape[1:])
    return {
        "batch": int(x.shape[0]), "in_h": in_h, "in_w": in_w, "out_h": out_h, "out_w": out_w, "stride_h": stride[0], "stride_w": stride[1],
        "pad_h": pad[0], "pad_w": pad[1], "dilation_h": dilation[0], "dilation_w": dilation[1],
    }  # fmt: skip


@lowers("q_conv_nhwc")
def conv(node: Node, ctx: Context) -> list[Call] | None:
    geometry = two_spatial(node)
    if geometry is None or not in_integers(node, ctx):
        return None
    x, wv, w = node.inputs[0], node.inputs[1], ctx.constant(node.inputs[1])
    assert x is not None and wv is not None and w is not None
    w4 = w if w.ndim == 4 else w[:, :, None, :]  # (O, C/G, KH, KW)
    out_c, depth, kernel_h, kernel_w = w4.shape
    groups = ints(node, "groups")["groups"]
    in_c = depth * groups
    pixels = geometry["batch"] * geometry["out_h"] * geometry["out_w"]
    g = {**geometry, "kernel_h": kernel_h, "kernel_w": kernel_w}
    plain = kernel_h == kernel_w == g["stride_h"] == g["stride_w"] == 1 and not g["pad_h"] and not g["pad_w"]
    if plain and groups == 1 and g["out_h"] == g["in_h"] and g["out_w"] == g["in_w"]:
        return [linear_call(node, ctx, x, pixels, in_c, out_c, w4.reshape(out_c, in_c))]
    if depth == 1 and groups == out_c and node.attrs["to"] == "int8":
        return [depthwise(node, ctx, g, wv, w4)]
    winograd = conv_by_tiles(node, ctx, g, wv, w4) if groups == 1 else None
    if winograd is not None:
        return [winograd]
    kernel = ctx.kernel(f"conv_{short(x, node.output)}")
    k = kernel_h * kernel_w * depth
    rows = w4.transpose(0, 2, 3, 1).reshape(groups, out_c // groups, k)
    data = ctx.once(wv, "conv", kernel.isa, make=lambda: pack(kernel.isa, rows))
    block = row_block(pixels, k, ctx.target.threads)
    bias, multiplier = per_channel(node, ctx, out_c)
    params: dict[str, Param] = {**g, "in_c": in_c, "out_c": out_c, "groups": groups, "block": block, "out_stride": out_c, **clamp(node)}
    scratch = Scratch(sizes(kernel.isa, block, k, out_c // groups)[1] + -(-k // 64) * 64)
    cost = pixels * out_c * k / MACS_PER_NS
    return [Call(kernel, params, (ctx.argument(x), data, bias, multiplier, node.output, scratch), -(-pixels // block), cost)]


G = np.array([[1, 0, 0], [-1, -1, -1], [-1, 1, -1], [1, 2, 4], [1, -2, 4], [0, 0, 1]], np.int32)  # as lb.h says
TILES_IN_CACHE = 300 << 10  # bytes of transformed inputs that stay in the second-level cache
FEWEST_TILES = 12  # with fewer the weights, four times as many bytes, cost more than the multiplications saved


def conv_by_tiles(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array) -> Call | None:
    """conv3x3_s8, where it is proved exact and pays; None elsewhere."""
    kernel = ctx.kernel("conv3x3_s8")
    out_c, in_c = w4.shape[:2]
    shape = (g["kernel_h"], g["kernel_w"], g["stride_h"], g["stride_w"], g["dilation_h"], g["dilation_w"])
    tiles = g["batch"] * -(-g["out_h"] // 4) * -(-g["out_w"] // 4)
    if kernel.isa == "ref" or shape != (3, 3, 1, 1, 1, 1) or node.attrs["to"] != "int8" or tiles < FEWEST_TILES or in_c < PANEL:
        return None
    if largest_sum(w4, ints(node, "x_zero")["x_zero"]) >= 1 << 25:
        return None
    depth = -(-in_c // PANEL) * PANEL
    data = ctx.once(wv, "winograd", make=lambda: pack_tiles(w4))
    most = max(2 * 6, TILES_IN_CACHE // (72 * depth) // 6 * 6)
    blocks = -(-tiles // min(48, most + 4))  # a few more are better than a small block behind
    if ctx.target.threads > 1:
        blocks = -(-blocks // ctx.target.threads) * ctx.target.threads
    block = -(-tiles // blocks)
    bias, multiplier = per_channel(node, ctx, out_c)
    names = ("batch", "in_h", "in_w", "out_h", "out_w", "pad_h", "pad_w")
    params: dict[str, Param] = {
        **{n: g[n] for n in names}, "in_c": in_c, "out_c": out_c, "block": block, "out_stride": out_c, **clamp(node),
    }  # fmt: skip
    x = node.inputs[0]
    assert x is not None
    args = (ctx.argument(x), data, bias, multiplier, node.output, Scratch(72 * block * depth + 36 * 64 * block))
    return Call(kernel, params, args, -(-tiles // block), tiles * 36 * in_c * out_c / MACS_PER_NS)


def largest_sum(w4: Array, x_zero: int) -> int:
    """The largest |Σ (x - x_zero)·w| of any int8 input and any output channel."""
    wide = w4.astype(np.int64)
    up, down = np.maximum(wide, 0).sum(axis=(1, 2, 3)), np.maximum(-wide, 0).sum(axis=(1, 2, 3))
    most, least = 127 - x_zero, 128 + x_zero
    return int(np.maximum(most * up + least * down, least * up + most * down).max(initial=0))


def pack_tiles(w4: Array) -> Array:
    """Winograd's weights G w G' as conv3x3_s8 wants them: (panels, 36, channels / 2, 16 outputs, 2 inputs)."""
    out_c, in_c = w4.shape[:2]
    u = np.einsum("ij,ocjk,lk->oilc", G, w4.astype(np.int32), G, optimize=True).reshape(out_c, 36, in_c)
    panels, depth = -(-out_c // PANEL), -(-in_c // PANEL) * PANEL
    full = np.zeros((panels * PANEL, 36, depth), np.int16)
    full[:out_c, :, :in_c] = u
    ordered = full.reshape(panels, PANEL, 36, depth // 2, 2).transpose(0, 2, 3, 1, 4)
    out = aligned(full.nbytes)
    out[:] = np.ascontiguousarray(ordered).reshape(-1).view(np.uint8)
    return out


def depthwise(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array) -> Call:
    kernel = ctx.kernel("dwconv_s8")
    channels = w4.shape[0]
    data = ctx.once(wv, "depthwise", make=lambda: np.ascontiguousarray(w4[:, 0].transpose(1, 2, 0)))
    bias, multiplier = per_channel(node, ctx, channels)
    across = g["in_w"] + g["kernel_w"] * g["dilation_w"] + g["stride_w"] + g["pad_w"]
    scratch = Scratch(8 * (g["kernel_h"] + 1) * across * 16 + 128 * (g["kernel_h"] + 1) * g["kernel_w"])
    params: dict[str, Param] = {**g, "channels": channels, "out_stride": channels, **clamp(node)}
    items = g["batch"] * g["out_h"]
    x = node.inputs[0]
    assert x is not None
    cost = items * g["out_w"] * channels * g["kernel_h"] * g["kernel_w"] / 20
    return Call(kernel, params, (ctx.argument(x), data, bias, multiplier, node.output, scratch), items, cost)
