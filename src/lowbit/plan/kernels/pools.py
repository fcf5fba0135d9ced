"""Pools and reductions over an image: max_pool_s8, avg_pool_s8, the same of 16 bits, and averages to another width or to floats."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import Context, KernelCall, Scratch, ints, kernels_for, short
from lowbit.plan.kernels.mixed import total
from lowbit.plan.kernels.products import rows_and_columns, two_spatial
from lowbit.plan.kernels.wide import narrowed, widened
from lowbit.plan.plan import Param
from lowbit.types import normalize_axis


def cost(g: dict[str, Any]) -> float:
    return float(g["batch"] * g["out_h"] * g["out_w"] * g["channels"] * g["kernel_h"] * g["kernel_w"]) * 0.03


@kernels_for("max_pool_nhwc")
def max_pool(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, g = node.inputs[0], two_spatial(node)
    if x is None or g is None or short(x) not in ("s8", "s16"):
        return None
    channels = int(x.shape[-1])
    fields = {**g, "channels": channels, "out_stride": channels}
    return [KernelCall(ctx.kernel(f"max_pool_{short(x)}"), fields, (ctx.argument(x), node.output), g["batch"] * g["out_h"], cost(fields))]


def average(ctx: Context, node: Node, x: Value, out: Value, fields: dict[str, Param]) -> list[KernelCall] | None:
    multiplier = float(node.attrs["multiplier"])  # type: ignore[arg-type]
    area = int(fields["kernel_h"]) * int(fields["kernel_w"])  # type: ignore[arg-type]
    if short(x, out) not in ("s8", "s16", "s8_f32", "s16_f32") or not np.isfinite(multiplier) or area >= 1 << 15:
        return None
    full = {**fields, "multiplier": multiplier, **ints(node, "x_zero", "y_zero", "lo", "hi")}
    items = int(fields["batch"]) * int(fields["out_h"])  # type: ignore[arg-type]
    args = (ctx.argument(x), out, Scratch(4 * int(fields["channels"])))  # type: ignore[arg-type]
    return [KernelCall(ctx.kernel(f"avg_pool_{short(x, out)}"), full, args, items, cost(full))]


def counted(node: Node) -> dict[str, int]:
    """The padding on each side that counts as pixels."""
    pads: Any = node.attrs["pads"]
    half = len(pads) // 2
    (top, left), (bottom, right) = (rows_and_columns(node, side, 0) for side in (pads[:half], pads[half:]))
    if not node.attrs["count_include_pad"]:
        top = left = bottom = right = 0
    return {"count_h0": top, "count_h1": bottom, "count_w0": left, "count_w1": right}


@kernels_for("q_avg_pool_nhwc")
def avg_pool(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, g = node.inputs[0], two_spatial(node)
    if x is None or g is None:
        return None
    channels = int(x.shape[-1])
    before, behind, out = list[KernelCall](), list[KernelCall](), node.output
    if short(x, out) == "s8_s16":
        before, x = widened(ctx, x, f"{out.name}:wide")
    elif short(x, out) == "s16_s8":  # a mean of 16 bits that lo and hi keep within 8
        (out,), behind = narrowed(ctx, node)
    found = average(ctx, node, x, out, {**g, **counted(node), "channels": channels, "out_stride": channels})
    return None if found is None else [*before, *found, *behind]


def whole(x: Value, axes: Any) -> dict[str, int] | None:
    """The fields of a pool over neighbouring axes, all of them: axes before are the batch, axes after the channels."""
    shape = [int(d) for d in x.shape]
    over = sorted(normalize_axis(a, len(shape)) for a in axes)
    if not over or over != list(range(over[0], over[-1] + 1)):
        return None
    count, channels = prod(shape[over[0] : over[-1] + 1]), prod(shape[over[-1] + 1 :])
    ones = dict.fromkeys(("in_h", "out_h", "out_w", "kernel_h", "stride_h", "stride_w", "dilation_h", "dilation_w"), 1)
    return {
        **ones, "batch": prod(shape[: over[0]]), "in_w": count, "kernel_w": max(count, 1), "channels": channels, "out_stride": channels,
        "pad_h": 0, "pad_w": 0,
    }  # fmt: skip


@kernels_for("q_reduce_mean")
def mean(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    assert x is not None
    fields = whole(x, node.attrs["axes"])
    if fields is None:
        return None
    count = np.float32(fields["in_w"])
    if count == 0 or short(x, node.output) in ("s8", "s16"):
        found = average(ctx, node, x, node.output, {**fields, "count_h0": 0, "count_h1": 0, "count_w0": 0, "count_w1": 0})
        if found is not None or count == 0:
            return found
    return total(node, ctx, float(np.float32(node.attrs["multiplier"]) / count))  # type: ignore[arg-type]


@kernels_for("reduce_max")
def largest(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    assert x is not None
    fields = whole(x, node.attrs["axes"])
    if fields is None or short(x) not in ("s8", "s16") or not fields["in_w"]:
        return None
    return [KernelCall(ctx.kernel(f"max_pool_{short(x)}"), fields, (ctx.argument(x), node.output), fields["batch"], cost(fields))]
