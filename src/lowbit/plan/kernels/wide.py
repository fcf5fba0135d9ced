"""Layers that multiply 16 bits, with weights of 8 or 16. 8-bit activations that meet 16-bit weights are widened first."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import Context, Data, KernelCall, Scratch, ints, kernels_for, short
from lowbit.plan.kernels.products import PANEL, PLAIN, clamp, per_channel, two_spatial
from lowbit.plan.pages import aligned
from lowbit.plan.plan import Param
from lowbit.types import Array

WORD_ROWS = 48  # rows that products do at once
MACS_PER_NS = 30.0
LARGEST = 1 << 52  # sums of doubles are exact below


def widened(ctx: Context, x: Value, name: str) -> tuple[list[KernelCall], Value]:
    """The same integers in 16 bits, and the calls that make them so; none for those that are."""
    if x.type.dtype.name == "int16":
        return [], x
    wide = Value(name, x.type.with_dtype("int16"))
    fields: dict[str, Param] = {"multiplier": 1.0, "x_zero": 0, "y_zero": 0, "lo": -32768, "hi": 32767}
    n = int(x.type.size)
    return [KernelCall(ctx.kernel("requantize_s8_s16"), fields, (ctx.argument(x), wide), n, n * 0.1, macs=0)], wide


def narrowed(ctx: Context, node: Node, count: int = 1) -> tuple[tuple[Value, ...], list[KernelCall]]:
    """The node's outputs with the first ones in 16 bits, and the calls that bring these, within the range of 8, to 8."""
    narrow = node.outputs[:count]
    wide = [Value(f"{o.name}:wide", o.type.with_dtype("int16")) for o in narrow]
    fields: dict[str, Param] = {"multiplier": 1.0, "x_zero": 0, "y_zero": 0, "lo": -128, "hi": 127}
    kernel, sizes = ctx.kernel("requantize_s16_s8"), [int(o.type.size) for o in narrow]
    calls = [KernelCall(kernel, fields, (v, o), n, n * 0.1, macs=0) for v, o, n in zip(wide, narrow, sizes, strict=True)]
    return (*wide, *node.outputs[count:]), calls


def weights_of(node: Node, ctx: Context) -> Array | None:
    """Weights that these kernels multiply with what the node reads: exact sums of 64 bits, finite multipliers."""
    w, m, x = ctx.constant(node.inputs[1]), ctx.constant(node.inputs[2]), short(node.inputs[0])
    if w is None or m is None or w.dtype not in (np.int8, np.int16) or x not in ("s8", "s16") or short(node.output) is None:
        return None
    return w if np.isfinite(m).all() and ints(node, "bound")["bound"] < LARGEST else None


ANY, WITH_BIAS, WITHOUT_BIAS = 0, 1, 2  # which sums are proved to stay within 32 bits, as csrc/wide/dot2_simd.h numbers them


def in_32_bits(node: Node) -> bool:
    return ints(node, "bound")["bound"] < 1 << 31


def proved(node: Node, w: Array) -> int:
    """Which sums stay within 32 bits. Weights (out, …) near 0 have a small scale, in which their bias alone may be large."""
    if in_32_bits(node):
        return WITH_BIAS
    most = int(np.abs(w.astype(np.int64)).reshape(len(w), -1).sum(axis=1).max(initial=0))
    return WITHOUT_BIAS if most * (32768 + abs(clamp(node)["x_zero"])) < 1 << 31 else ANY


def wide_bias(node: Node, ctx: Context, channels: int) -> tuple[Data, Data]:
    """Bias of 64 bits and multiplier, one for each channel."""
    bias, multiplier = per_channel(node, ctx, channels)
    return Data(bias.array.astype(np.int64)), multiplier


@kernels_for("q_linear")
def linear(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, w = node.inputs[0], weights_of(node, ctx)
    if w is None or x is None:
        return None
    return linear_calls(node, ctx, x, prod(int(d) for d in x.shape[:-1]), w)


def linear_calls(node: Node, ctx: Context, x: Value, rows: int, w: Array) -> list[KernelCall]:
    """Sums of 32 bits where they are proved to fit, else of 64."""
    wv = node.inputs[1]
    assert wv is not None
    calls, x = widened(ctx, x, f"{node.output.name}:wide")
    n, k = w.shape
    kernel = ctx.kernel(f"linear_{short(x, node.output)}")
    if kernel.isa in PLAIN and w.dtype == np.int8:  # conv_s16 leaves weights as they are: half the bytes
        ones = dict.fromkeys(("batch", "in_h", "out_h", "stride_h", "stride_w", "dilation_h", "dilation_w"), 1)
        return [*calls, windows(node, ctx, x, {**ones, "in_w": rows, "out_w": rows, "pad_h": 0, "pad_w": 0}, w[:, :, None, None], 1)]
    if kernel.isa in PLAIN:
        weights = ctx.once(wv, "int16", make=lambda: np.ascontiguousarray(w, np.int16))
    else:
        narrow = proved(node, w)
        weights = ctx.once(wv, "words", str(narrow), make=lambda: pack_words(w, narrow))
    columns = -(-max(n, 1) // PANEL) * PANEL
    if ctx.target.threads > 1:
        columns = min(columns, 8 * PANEL)
    blocks = max(1, -(-rows // WORD_ROWS))
    block = max(1, -(-rows // blocks))
    params: dict[str, Param] = {
        "rows": rows, "k": k, "n": n, "block_rows": block, "block_columns": columns, "out_stride": n, **clamp(node),
    }  # fmt: skip
    args = (ctx.argument(x), weights, *wide_bias(node, ctx, n), node.output)
    return [*calls, KernelCall(kernel, params, args, -(-rows // block) * -(-n // columns), rows * k * n / MACS_PER_NS)]


@kernels_for("q_conv_nhwc")
def conv(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, wv, w, g = node.inputs[0], node.inputs[1], weights_of(node, ctx), two_spatial(node)
    if w is None or g is None or x is None or wv is None:
        return None
    kernel_h, kernel_w = g["kernel_h"], g["kernel_w"]
    w4 = w.reshape(*w.shape[:2], kernel_h, kernel_w)  # (O, C/G, KH, KW)
    out_c, depth = w4.shape[:2]
    groups, pixels = ints(node, "groups")["groups"], g["batch"] * g["out_h"] * g["out_w"]
    plain = kernel_h == kernel_w == g["stride_h"] == g["stride_w"] == 1 and not g["pad_h"] and not g["pad_w"] and groups == 1
    if plain and g["out_h"] == g["in_h"] and g["out_w"] == g["in_w"]:
        return linear_calls(node, ctx, x, pixels, w4.reshape(out_c, depth))
    calls, x = widened(ctx, x, f"{node.output.name}:wide")
    return [*calls, windows(node, ctx, x, g, w4, groups)]


def windows(node: Node, ctx: Context, x: Value, g: dict[str, Any], w4: Array, groups: int) -> KernelCall:
    """conv_s16, or dwconv_s16 where every channel is by itself."""
    wv = node.inputs[1]
    assert wv is not None
    out_c, depth, kernel_h, kernel_w = w4.shape
    pixels, k = g["batch"] * g["out_h"] * g["out_w"], kernel_h * kernel_w * depth
    alone = depth == 1 and groups == out_c
    kernel = ctx.kernel("dwconv_s16" if alone else "conv_s16")
    ordered = w4[:, 0].transpose(1, 2, 0) if alone else w4.transpose(0, 2, 3, 1)
    how, narrow = "taps" if alone else "windows", proved(node, w4)
    if kernel.isa in PLAIN:
        data = ctx.once(wv, how, make=lambda: np.ascontiguousarray(ordered))
        starts = 8 * out_c if clamp(node)["x_zero"] else 0
        scratch = Scratch(0 if kernel.isa == "ref" or alone else 2 * k + starts)
    elif alone:
        group = 32 if kernel.isa == "avx512vnni" else 16  # channels that a vector holds
        data = ctx.once(wv, "word taps", str(narrow), str(group), make=lambda: pack_taps(ordered, narrow, group))
        scratch = Scratch(18 * (-(-out_c // group) * group))
    else:
        rows = ordered.reshape(groups, out_c // groups, k)
        data = ctx.once(wv, "word windows", str(narrow), str(groups), make=lambda: pack_groups(rows, narrow))
        scratch = Scratch(2 * WORD_ROWS * (k + k % 2) + 64)
    block = min(WORD_ROWS, max(6, -(-pixels // (6 * ctx.target.threads)) * 6))
    params: dict[str, Param] = {
        **g, "in_c": depth * groups, "out_c": out_c, "kernel_h": kernel_h, "kernel_w": kernel_w, "groups": groups, "block": block,
        "out_stride": out_c, "weight_bytes": w4.itemsize, "sum_bytes": 4 if narrow == WITH_BIAS else 8,
        "out_bytes": node.output.type.dtype.numpy.itemsize, **clamp(node),
    }  # fmt: skip
    args = (ctx.argument(x), data, *wide_bias(node, ctx, out_c), node.output, scratch)
    return KernelCall(kernel, params, args, -(-pixels // block), pixels * out_c * k / (10 if alone else MACS_PER_NS))


def planes_of(w: Array) -> list[Array]:
    """w as one plane, or for 16 bits as two with w = first + 256·second, both of 8 bits (the second up to 128)."""
    wide = w.astype(np.int32)
    if w.dtype == np.int8:
        return [wide]
    low = ((wide + 128) & 255) - 128
    return [low, (wide - low) >> 8]


def with_head(planes: int, narrow: int, sums: Array, body: Array) -> Array:
    head = np.zeros(16, np.int32)
    head[:2] = planes, narrow if planes == 1 else ANY
    out = aligned(head.nbytes + sums.nbytes + body.nbytes)
    out[:] = np.concatenate([np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (head, sums, body)])
    return out


def pack_words(w: Array, narrow: int) -> Array:
    """Weights (n, k) as csrc/wide/dot2_simd.h says: a head, the sums of columns, one plane of panels for 8 bits and two for 16."""
    n, k = w.shape
    parts = planes_of(w)
    columns, depth = -(-n // PANEL) * PANEL, -(-k // 2) * 2
    full = np.zeros((len(parts), columns, depth), np.int16)
    for plane, part in enumerate(parts):
        full[plane, :n, :k] = part
    sums = np.zeros(columns, np.int64)
    sums[:n] = w.sum(axis=1, dtype=np.int64)
    panels = full.reshape(len(parts), columns // PANEL, PANEL, depth // 2, 2).transpose(0, 1, 3, 2, 4)
    return with_head(len(parts), narrow, sums, panels)


def pack_groups(w: Array, narrow: int) -> Array:
    """Weights (groups, n, k), each group as pack_words has it."""
    each = [pack_words(group, narrow) for group in w]
    out = aligned(sum(e.nbytes for e in each))
    if each:
        out[:] = np.concatenate(each)
    return out


def pack_taps(w: Array, narrow: int, group: int) -> Array:
    """Weights (kernel_h, kernel_w, channels) as csrc/wide/conv_wide.h says: pairs of taps, channels in the order of products."""
    high, across, channels = w.shape
    parts = planes_of(w)
    wide, pad = -(-channels // group) * group, (high % 2, 0) if high > 1 else (0, across % 2)
    full = np.zeros((len(parts), high + pad[0], across + pad[1], wide), np.int16)
    for plane, part in enumerate(parts):
        full[plane, :high, :across, :channels] = part
    sums = np.zeros(wide, np.int64)
    sums[:channels] = w.sum(axis=(0, 1), dtype=np.int64)
    # two rows of taps are pairs, or two columns of a single row: (plane, pair, tap, …)
    paired = full.reshape(len(parts), -1, 2, across, wide).swapaxes(2, 3) if high > 1 else full
    eights = paired.reshape(len(parts), -1, 2, wide // group, group // 8, 2, 4)
    # (plane, pair, tap, group, eight, half, four) → (plane, pair, group, half, eight, four, tap)
    return with_head(len(parts), narrow, sums, eights.transpose(0, 1, 3, 5, 4, 6, 2))
