"""Pools and reductions of floats."""

from __future__ import annotations

from math import prod
from typing import Any

from lowbit.ir.graph import Node
from lowbit.plan.kernels.call import Context, KernelCall, kernels_for
from lowbit.plan.kernels.float_products import is_float
from lowbit.plan.kernels.pools import cost, counted
from lowbit.plan.kernels.products import two_spatial
from lowbit.plan.plan import Param
from lowbit.types import normalize_axis

KINDS = {"reduce_sum": 0, "reduce_mean": 0, "reduce_sum_square": 1, "reduce_l2": 1, "reduce_l1": 2, "reduce_max": 3, "reduce_min": 4}
KINDS["reduce_prod"] = 5


@kernels_for("max_pool_nhwc")
def max_pool(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, g = node.inputs[0], two_spatial(node)
    if x is None or g is None or not is_float(x):
        return None
    channels = int(x.shape[-1])
    fields = {**g, "channels": channels, "out_stride": channels}
    return [KernelCall(ctx.kernel("max_pool_f32"), fields, (ctx.argument(x), node.output), g["batch"] * g["out_h"], 4 * cost(fields))]


@kernels_for("avg_pool_nhwc")
def avg_pool(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, g = node.inputs[0], two_spatial(node)
    if x is None or g is None or not is_float(x):
        return None
    channels = int(x.shape[-1])
    fields = {**g, **counted(node), "channels": channels, "out_stride": channels}
    return [KernelCall(ctx.kernel("avg_pool_f32"), fields, (ctx.argument(x), node.output), g["batch"] * g["out_h"], 4 * cost(fields))]


def three(shape: list[int], axes: Any) -> tuple[int, int, int] | None:
    """The shape as (before, the axes, after), if the axes are neighbours but for axes of length 1."""
    over = sorted(normalize_axis(a, len(shape)) for a in axes)
    if not over:
        return prod(shape), 1, 1
    if any(shape[i] != 1 for i in range(over[0], over[-1]) if i not in over):
        return None
    return prod(shape[: over[0]]), prod(shape[over[0] : over[-1] + 1]), prod(shape[over[-1] + 1 :])


@kernels_for(*KINDS)
def reduce(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    found = three([int(d) for d in x.shape], node.attrs["axes"]) if x is not None and is_float(x) else None
    if x is None or found is None:
        return None
    outer, n, inner = found
    if node.op == "reduce_mean" and not n:
        return None
    scale = 1.0 / n if node.op == "reduce_mean" else 1.0
    params: dict[str, Param] = {
        "outer": outer, "n": n, "inner": inner, "kind": KINDS[node.op], "root": int(node.op == "reduce_l2"), "scale": scale,
    }  # fmt: skip
    return [KernelCall(ctx.kernel("reduce_f32"), params, (ctx.argument(x), node.output), outer, outer * n * inner * 0.15)]
