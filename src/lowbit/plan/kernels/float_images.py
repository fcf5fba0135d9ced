"""Images of floats that grow: conv_transpose_f32, resize_f32."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.ir.graph import Node
from lowbit.ops.resize import coordinates, interpolation_matrix, nearest
from lowbit.plan.kernels.call import Context, Data, KernelCall, Scratch, ints, kernels_for
from lowbit.plan.kernels.float_products import bias_of, bounds, is_float, pack, tile_of
from lowbit.plan.kernels.movement import shape_of
from lowbit.plan.kernels.products import two_spatial
from lowbit.plan.plan import Param
from lowbit.types import Array


def tap_order(kernel: tuple[int, int], dilation: tuple[int, int], stride: tuple[int, int]) -> list[int]:
    """Taps i * kernel_w + j, those that meet in a pixel of the output side by side."""
    taps = [(i, j) for i in range(kernel[0]) for j in range(kernel[1])]
    ordered = sorted(taps, key=lambda t: (t[0] * dilation[0] % stride[0], t[1] * dilation[1] % stride[1], t))
    return [i * kernel[1] + j for i, j in ordered]


@kernels_for("conv_transpose_nhwc", "conv_transpose_nhwc_clip")
def conv_transpose(node: Node, ctx: Context) -> list[KernelCall] | None:
    g = two_spatial(node)
    x, wv, w = node.inputs[0], node.inputs[1], ctx.constant(node.inputs[1])
    if g is None or x is None or wv is None or w is None or not is_float(x):
        return None
    kernel = ctx.kernel("conv_transpose_f32")
    groups = ints(node, "groups")["groups"]
    kernel_h, kernel_w = g["kernel_h"], g["kernel_w"]
    w4 = w.reshape(*w.shape[:2], kernel_h, kernel_w)  # (C, O/G, KH, KW)
    in_c, n = w4.shape[:2]
    depth, taps = in_c // groups, kernel_h * kernel_w

    tile = tile_of(kernel.isa)

    def packed() -> Array:
        rows = w4.reshape(groups, depth, n, taps).transpose(0, 2, 3, 1)  # (G, O/G, taps, C/G)
        if kernel.isa != "ref":
            order = tap_order((kernel_h, kernel_w), (g["dilation_h"], g["dilation_w"]), (g["stride_h"], g["stride_w"]))
            rows = rows[:, :, order]
        return pack(kernel.isa, rows.reshape(groups, n, taps * depth))

    data = ctx.once(wv, "transposed panels", kernel.isa, str(groups), make=packed)
    params: dict[str, Param] = {
        **g, "in_c": in_c, "out_c": n * groups, "groups": groups, **bounds(node),
    }  # fmt: skip
    args = (ctx.argument(x), data, bias_of(ctx, node.input(2), n * groups), node.output, Scratch(8 * tile.rows * taps + 4 * depth + 64))
    cost = g["batch"] * g["in_h"] * g["in_w"] * in_c * n * taps / tile.macs_per_ns
    return [KernelCall(kernel, params, args, g["batch"] * g["out_h"], cost)]


def axis_table(attrs: Any, n: int, out: int, axis: int) -> tuple[Array, Array]:
    """Which elements along an axis an output element is made of, (out, taps), and their weights."""
    scale = out / n if attrs["scales"][axis] is None else attrs["scales"][axis]
    mode = attrs["mode"]
    at = coordinates(n, out, scale, attrs["coordinate_mode"], (0.0, 1.0), nearest=mode == "nearest")
    if n == out and np.array_equal(at, np.arange(n)):
        return np.arange(n, dtype=np.int32)[:, None], np.ones((n, 1), np.float32)
    if mode == "nearest":
        return nearest(at, attrs["nearest_mode"]).clip(0, n - 1).astype(np.int32)[:, None], np.ones((out, 1), np.float32)
    stretch = min(scale, 1.0) if attrs["antialias"] else 1.0
    matrix = interpolation_matrix(at, n, mode, stretch, attrs["cubic_coeff_a"], attrs["exclude_outside"])
    index, weight = taps_of(matrix)
    return index, weight.astype(np.float32)


def taps_of(matrix: Array) -> tuple[Array, Array]:
    """The columns of each row that count, (rows, taps), and what stands there; where they are fewer, the first again with a weight of 0."""
    taps = max(1, int((matrix != 0).sum(axis=1).max()))
    index = np.argsort(matrix == 0, axis=1, kind="stable")[:, :taps]  # those that count come first
    weight = np.take_along_axis(matrix, index, axis=1)
    first = index[:, :1]
    return np.where(weight == 0, first, index).astype(np.int32), weight


@kernels_for("resize_nhwc")
def resize(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, attrs = node.inputs[0], node.attrs
    if x is None or not is_float(x) or attrs["coordinate_mode"] == "tf_crop_and_resize":
        return None
    shape, out = shape_of(x), shape_of(node.output)
    if shape[0] != out[0] or shape[-1] != out[-1] or 0 in shape or 0 in out:
        return None
    scales: Any = attrs["scales"]
    if any(scales[i] not in (None, 1.0) for i in (0, 1)):
        return None
    one = len(shape) == 3
    (in_h, in_w), (out_h, out_w) = ((1, s[1]) if one else (s[1], s[2]) for s in (shape, out))
    rows = (np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32)) if one else axis_table(attrs, in_h, out_h, 2)
    columns = axis_table(attrs, in_w, out_w, len(shape) - 1)
    params: dict[str, Param] = {
        "batch": shape[0], "in_h": in_h, "in_w": in_w, "channels": shape[-1], "out_h": out_h, "out_w": out_w,
        "row_taps": rows[0].shape[1], "column_taps": columns[0].shape[1],
    }  # fmt: skip
    args = (ctx.argument(x), *(Data(np.ascontiguousarray(t)) for t in (*rows, *columns)), node.output)
    items = shape[0] * out_h
    cost = items * out_w * shape[-1] * rows[0].shape[1] * columns[0].shape[1] * 0.15
    return [KernelCall(ctx.kernel("resize_f32"), params, args, items, cost)]
