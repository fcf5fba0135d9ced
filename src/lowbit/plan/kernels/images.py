"""Images of integers that grow or shrink: resize_s8."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lowbit.ir.graph import Node
from lowbit.ops.q_resize import axis_weights
from lowbit.plan.kernels.call import Context, Data, KernelCall, ints, is_int8, kernels_for
from lowbit.plan.kernels.float_images import taps_of
from lowbit.plan.kernels.movement import shape_of
from lowbit.plan.plan import Param
from lowbit.types import Array

Axis = tuple[Array, Array]  # (out, taps): the elements that an output element is made of, and their weights
KEPT: Axis = (np.zeros((1, 1), np.int32), np.ones((1, 1), np.int64))


@kernels_for("q_resize")
def resize(node: Node, ctx: Context) -> list[KernelCall] | None:
    """At most two axes, side by side: axes before them are a batch, axes after them are channels."""
    x, a = node.inputs[0], dict[str, Any](node.attrs)
    axes = a["axes"]
    if x is None or not is_int8(x, node.output) or len(axes) not in (1, 2) or axes[-1] - axes[0] != len(axes) - 1:
        return None
    shape, out = shape_of(x), shape_of(node.output)
    if 0 in shape or 0 in out:
        return None
    tables = [KEPT] * (2 - len(axes)) + [axis_taps(a, shape[i], out[i], i) for i in axes]
    (in_h, in_w), (out_h, out_w) = ([1] * (2 - len(axes)) + [s[i] for i in axes] for s in (shape, out))
    rows, columns = tables
    offset, limit = a["x_zero"] << (a["fraction"] * len(axes)), 128 * magnitude(rows) * magnitude(columns)
    if limit + abs(offset) >= 1 << 31 or max(magnitude(rows), magnitude(columns)) >= 1 << 15:
        return None
    batch, channels = prod(shape[: axes[0]]), prod(shape[axes[-1] + 1 :])
    params: dict[str, Param] = {
        "batch": batch, "in_h": in_h, "in_w": in_w, "channels": channels, "out_h": out_h, "out_w": out_w,
        "row_taps": rows[0].shape[1], "column_taps": columns[0].shape[1],
        "offset": offset, "multiplier": a["multiplier"], **ints(node, "y_zero", "lo", "hi"),
    }  # fmt: skip
    args = (
        ctx.argument(x),
        *(Data(np.ascontiguousarray(t, d)) for t, d in zip((*rows, *columns), (np.int32, np.int16) * 2, strict=True)),
        node.output,
    )
    cost = batch * out_h * out_w * channels * rows[0].shape[1] * columns[0].shape[1] * 0.15
    return [KernelCall(ctx.kernel("resize_s8"), params, args, batch * out_h, cost)]


def axis_taps(a: dict[str, Any], n: int, out: int, axis: int) -> Axis:
    named = (a[k] for k in ("mode", "coordinate_mode", "cubic_coeff_a", "exclude_outside", "antialias", "fraction"))
    return taps_of(axis_weights(n, out, a["scales"][axis], *named))


def magnitude(axis: Axis) -> int:
    """The most that the weights of one element sum to, whatever their signs."""
    return int(np.abs(axis[1]).sum(axis=1).max())
