"""Softmax of integers and its logarithm: softmax_int."""

from __future__ import annotations

from math import prod
from typing import Any

from lowbit.ir.graph import Node
from lowbit.plan.kernels.call import Context, Data, KernelCall, ints, kernels_for, short
from lowbit.plan.kernels.movement import item_bytes, shape_of
from lowbit.plan.plan import Param
from lowbit.types import normalize_axis


@kernels_for("q_softmax", "q_log_softmax")
def softmax(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, table = node.inputs[0], ctx.constant(node.inputs[1])
    assert x is not None
    shape = shape_of(x)
    axis = normalize_axis(node.attrs["axis"], len(shape))  # type: ignore[arg-type]
    outer, n, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    if table is None or short(x) not in ("s8", "s16") or short(node.output) is None or not outer * n * inner:
        return None
    a: Any = node.attrs
    log = node.op == "q_log_softmax"
    fields: dict[str, Param] = {
        "n": n, "inner": inner, "logarithm": int(log), "x_bytes": item_bytes(x), "out_bytes": item_bytes(node.output),
        "multiplier": float(a["multiplier"]), "y_scale": float(a["y_scale"]) if log else 1.0, **ints(node, "y_zero", "lo", "hi"),
    }  # fmt: skip
    args = (ctx.argument(x), Data(table), node.output)
    return [KernelCall(ctx.kernel("softmax_int"), fields, args, outer * inner, outer * n * inner * 1.5)]
