"""Norms in integers: norm_s8 and norm_s16 for layer, RMS, instance and group norms; scale_shift for batch norms."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lowbit.ir.graph import Node
from lowbit.plan.kernels.call import Context, Data, KernelCall, ints, kernels_for, short
from lowbit.plan.kernels.movement import item_bytes, shape_of
from lowbit.plan.plan import Param
from lowbit.types import Array, normalize_axis


def vectors(node: Node, ctx: Context, channels: int) -> tuple[Array, Array | None] | None:
    """Gain and offset, one for each channel; None where they are not constant."""
    gain, offset = ctx.constant(node.inputs[1]), ctx.constant(node.input(2))
    if gain is None or (offset is None and node.input(2) is not None):
        return None

    def full(v: Array) -> Array:
        return np.ascontiguousarray(np.broadcast_to(v.reshape(-1), (channels,)), np.float32)

    return full(gain), None if offset is None else full(offset)


@kernels_for("q_layer_norm", "q_rms_norm", "q_instance_norm", "q_group_norm")
def norm(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    assert x is not None
    shape = shape_of(x)
    if node.op in ("q_layer_norm", "q_rms_norm"):
        axis = normalize_axis(node.attrs["axis"], len(shape))  # type: ignore[arg-type]
        sets, n, run, cycle = prod(shape[:axis]), prod(shape[axis:]), 1, 1
    else:
        groups = ints(node, "groups")["groups"] if node.op == "q_group_norm" else shape[1]
        run, cycle = prod(shape[2:]), groups
        sets, n = shape[0] * groups, shape[1] // groups * run
    if short(x) not in ("s8", "s16") or short(node.output) is None or not n or not sets:
        return None
    found = vectors(node, ctx, cycle * (n // run))
    if found is None:
        return None
    gain, offset = found
    eps: Any = node.attrs["eps"]
    fields: dict[str, Param] = {
        "n": n, "run": run, "cycle": cycle, "centered": int(node.op != "q_rms_norm"), "shifted": int(offset is not None),
        "out_bytes": item_bytes(node.output), "eps": float(eps), **ints(node, "x_zero", "y_zero", "lo", "hi"),
    }  # fmt: skip
    args = (ctx.argument(x), Data(gain), Data(gain if offset is None else offset), node.output)
    return [KernelCall(ctx.kernel(f"norm_{short(x)}"), fields, args, sets, sets * n * 0.4)]


@kernels_for("q_batch_norm")
def batch_norm(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    assert x is not None
    shape = shape_of(x)
    found = vectors(node, ctx, shape[1])
    if found is None or found[1] is None or short(x) not in ("s8", "s16") or short(node.output) is None:
        return None
    inner = prod(shape[2:])
    sizes = {"x_bytes": item_bytes(x), "out_bytes": item_bytes(node.output)}
    fields: dict[str, Param] = {"channels": shape[1], "inner": inner, **sizes, **ints(node, "x_zero", "y_zero", "lo", "hi")}
    args = (ctx.argument(x), Data(found[0]), Data(found[1]), node.output)
    return [KernelCall(ctx.kernel("scale_shift"), fields, args, shape[0] * shape[1], prod(shape) * 1.0)]
