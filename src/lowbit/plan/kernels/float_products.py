"""Linear layers and convolutions of floats: linear_f32, conv_f32, dwconv_f32."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import Context, Data, KernelCall, Scratch, kernels_for
from lowbit.plan.kernels.products import convolved, two_spatial
from lowbit.plan.pages import aligned
from lowbit.plan.plan import Param
from lowbit.types import Array

PANEL = 16  # columns of packed weights that stand together
ALIAS = 512  # linear_f32: rows of such a length are copied
SHALLOW = 16  # conv_f32: of fewer channels in groups or dilated windows a row of all taps is gathered
DEEP = 64  # conv_f32: windows of fewer channels are read from lines of the image, with zeros around
LINES = 4  # output rows of an item that reads lines, at least: neighbours share lines, which each of them copies


@dataclass(frozen=True)
class Tile:
    """What kernels of an instruction set hold in registers, and what they are worth."""

    rows: int
    columns: int
    macs_per_ns: float
    most: int  # rows of an item
    cache: int  # bytes of rows that stay in the second-level cache while the weights pass


NARROW = Tile(6, 16, 40.0, 96, 256 << 10)
TILES = {"avx512": Tile(14, 32, 80.0, 196, 512 << 10)}


def tile_of(isa: str) -> Tile:
    return TILES.get(isa, NARROW)


def is_float(*values: Value | None) -> bool:
    return all(v is not None and v.type.dtype.name == "float32" for v in values)


def bounds(node: Node) -> dict[str, Param]:
    """lo and hi of a `_clip` op; without it nothing is clamped."""
    lo: Any = node.attrs.get("lo", -inf)
    hi: Any = node.attrs.get("hi", inf)
    return {"lo": float(lo), "hi": float(hi)}


def panels(rows: Array) -> Array:
    """Weights (groups, n, k) as tiles want them: (groups, ceil(n / 16), k, 16), zeros after the last column."""
    groups, n, k = rows.shape
    wide = -(-n // PANEL) * PANEL
    out = aligned(4 * groups * wide * k).view(np.float32).reshape(groups, wide // PANEL, k, PANEL)
    full = n // PANEL
    out[:, :full] = rows[:, : full * PANEL].reshape(groups, full, PANEL, k).swapaxes(2, 3)
    if n % PANEL:
        out[:, full, :, n % PANEL :] = 0
        out[:, full, :, : n % PANEL] = rows[:, full * PANEL :].swapaxes(1, 2)
    return out


def pack(isa: str, rows: Array) -> Array:
    return np.ascontiguousarray(rows) if isa == "ref" else panels(rows)


def bias_of(ctx: Context, value: Value | None, n: int) -> Value | Data:
    if value is not None:
        return ctx.argument(value)
    if ("", f"zeros {n}") not in ctx.packed:
        ctx.packed["", f"zeros {n}"] = np.zeros(n, np.float32)
    return Data(ctx.packed["", f"zeros {n}"])


def blocks(tile: Tile, rows: int, n: int, row_bytes: int, threads: int) -> tuple[int, int]:
    """Rows and columns of an item: rows that stay in the cache, a multiple of a tile's; with threads, some items for each."""
    most = max(tile.rows, min(tile.most, tile.cache // max(row_bytes, 1)) // tile.rows * tile.rows)
    columns = -(-max(n, 1) // tile.columns) * tile.columns
    if threads > 1:
        wanted = 4 * threads
        if rows >= tile.rows * wanted:
            most = min(most, max(tile.rows, rows // wanted // tile.rows * tile.rows))
        elif columns >= tile.columns * threads:
            columns = max(tile.columns, -(-columns // (tile.columns * wanted)) * tile.columns)
    count = max(1, -(-rows // most))
    return max(tile.rows, -(-rows // (count * tile.rows)) * tile.rows), columns


def linear_call(node: Node, ctx: Context, x: Value, rows: int, k: int, n: int, weights: Array, turned: bool = False) -> KernelCall:
    """Rows times weights (n, k), or (k, n) if they stand `turned`."""
    kernel = ctx.kernel("linear_f32")
    tile = tile_of(kernel.isa)
    block, columns = blocks(tile, rows, n, 4 * k, ctx.target.threads)
    w = node.inputs[1]
    assert w is not None
    how = "turned panels" if turned else "panels"
    data = ctx.once(w, how, kernel.isa, make=lambda: pack(kernel.isa, (weights.T if turned else weights).reshape(1, n, k)))
    params: dict[str, Param] = {
        "rows": rows, "k": k, "n": n, "block_rows": block, "block_columns": columns, "out_stride": n, **bounds(node),
    }  # fmt: skip
    scratch = Scratch(4 * block * (k + 16) if k % ALIAS == 0 else 0)
    args = (ctx.argument(x), data, bias_of(ctx, node.input(2), n), node.output, scratch)
    return KernelCall(kernel, params, args, -(-rows // block) * -(-n // columns), rows * k * n / tile.macs_per_ns + n * k / 8)


@kernels_for("linear", "linear_clip")
def linear(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, w = node.inputs[0], ctx.constant(node.inputs[1])
    if x is None or w is None or not is_float(x, node.output):
        return None
    n, k = w.shape
    return [linear_call(node, ctx, x, prod(int(d) for d in x.shape[:-1]), k, n, w)]


@kernels_for("conv_nhwc", "conv_nhwc_clip")
def conv(node: Node, ctx: Context) -> list[KernelCall] | None:
    g = two_spatial(node)
    x, wv, w = node.inputs[0], node.inputs[1], ctx.constant(node.inputs[1])
    if g is None or x is None or wv is None or w is None or not is_float(x, node.output):
        return None
    c = convolved(node, g, w)
    out_c, depth = c.w4.shape[:2]
    if c.pointwise:
        return [linear_call(node, ctx, x, c.pixels, c.in_c, out_c, c.w4.reshape(out_c, c.in_c))]
    if depth == 1 and c.groups == out_c:
        return [depthwise(node, ctx, g, wv, c.w4)]
    return [direct(node, ctx, g, wv, c.w4, c.groups, c.pixels)]


def whole_rows(block: int, batch: int, out_h: int, out_w: int, threads: int) -> int:
    """About as many pixels, but whole rows of the output, cut evenly; fewer than a row where rows are fewer than threads."""
    if batch * out_h < threads:
        return block
    rows = max(1, round(block / max(out_w, 1)))
    rows = max(rows, min(LINES, out_h // (4 * threads) if threads > 1 else LINES))
    return max(1, -(-out_h // max(1, -(-out_h // rows))) * out_w)


def direct(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array, groups: int, pixels: int) -> KernelCall:
    kernel = ctx.kernel("conv_f32")
    out_c, depth, kernel_h, kernel_w = w4.shape
    k, taps, n = kernel_h * kernel_w * depth, kernel_h * kernel_w, out_c // groups
    rows = w4.transpose(0, 2, 3, 1).reshape(groups, n, k)
    data = ctx.once(wv, "conv panels", kernel.isa, str(groups), make=lambda: pack(kernel.isa, rows))
    lines = groups == 1 and g["dilation_w"] == 1 and depth < DEEP
    seen = 4 * depth * groups * g["stride_h"] * g["stride_w"] * 2 if depth >= SHALLOW or lines else 4 * k  # of the input, for each pixel
    tile = tile_of(kernel.isa)
    block, columns = blocks(tile, pixels, n, seen, ctx.target.threads)
    if lines:
        block = whole_rows(block, g["batch"], g["out_h"], g["out_w"], ctx.target.threads)
    params: dict[str, Param] = {
        **g, "in_c": depth * groups, "out_c": out_c, "groups": groups, "block": block, "block_columns": columns, "out_stride": out_c,
        **bounds(node),
    }  # fmt: skip
    if lines:
        high = min((block + g["out_w"] - 2) // g["out_w"], g["out_h"] - 1) * g["stride_h"] + (kernel_h - 1) * g["dilation_h"] + 1
        scratch = Scratch(4 * high * ((g["out_w"] - 1) * g["stride_w"] + kernel_w) * depth)
    else:
        scratch = Scratch(4 * block * k if depth < SHALLOW else 8 * (block + tile.rows) * taps + 4 * depth)
    x = node.inputs[0]
    assert x is not None
    args = (ctx.argument(x), data, bias_of(ctx, node.input(2), out_c), node.output, scratch)
    items = -(-pixels // block) * groups * -(-n // columns)
    return KernelCall(kernel, params, args, items, pixels * out_c * k / tile.macs_per_ns)


def depthwise(node: Node, ctx: Context, g: dict[str, Any], wv: Value, w4: Array) -> KernelCall:
    kernel = ctx.kernel("dwconv_f32")
    channels = w4.shape[0]
    data = ctx.once(wv, "depthwise", make=lambda: np.ascontiguousarray(w4[:, 0].transpose(1, 2, 0)))
    params: dict[str, Param] = {**g, "channels": channels, "out_stride": channels, **bounds(node)}
    items = g["batch"] * g["out_h"]
    x = node.inputs[0]
    assert x is not None
    cost = items * g["out_w"] * channels * g["kernel_h"] * g["kernel_w"] / 15
    return KernelCall(kernel, params, (ctx.argument(x), data, bias_of(ctx, node.input(2), channels), node.output), items, cost)
