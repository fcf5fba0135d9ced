"""Products, quotients and sums of integers of any mixture of widths, and of float results."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lowbit.ir.graph import Node
from lowbit.ops.q_elementwise import sum_offset
from lowbit.plan.kernels.call import Context, KernelCall, Scratch, ints, kernels_for, short
from lowbit.plan.kernels.elementwise import binary, broadcast, size_of
from lowbit.plan.kernels.movement import item_bytes, shape_of
from lowbit.plan.plan import Param
from lowbit.types import normalize_axis

ZEROS = {"a_zero": "x_zero", "b_zero": "y_zero", "y_zero": "z_zero", "lo": "lo", "hi": "hi"}


@kernels_for("q_mul", "q_div")
def scaled(node: Node, ctx: Context) -> list[KernelCall] | None:
    a, b = node.inputs[:2]
    m: Any = node.attrs["multiplier"]
    fields: dict[str, Param] = {"multiplier": float(m)}
    for field, name in ZEROS.items():
        fields |= {field: ints(node, name)[name]}
    found = binary(node, ctx, "mul", fields) if node.op == "q_mul" else None
    if found is not None:
        return found
    shapes = broadcast(node)
    widths = [short(v) for v in (a, b, node.output)]
    if shapes is None or a is None or b is None or "f32" in widths[:2] or None in widths or not np.isfinite(float(m)):
        return None
    n = size_of(node.output)
    sizes = {"a_bytes": item_bytes(a), "b_bytes": item_bytes(b), "out_bytes": item_bytes(node.output)}
    args = (ctx.argument(a), ctx.argument(b), node.output)
    alike = a.shape == b.shape == node.output.shape
    return [KernelCall(ctx.kernel(f"{node.op[2:]}_int"), {**shapes, **sizes, **fields}, args, n, n * 0.3, elementwise=alike)]


@kernels_for("q_add")
def add(node: Node, ctx: Context) -> list[KernelCall] | None:
    """Sums that have no kernel of their own: of mixed widths, and those whose result stays float."""
    a, b = node.inputs[:2]
    zeros, (mx, my) = ints(node, "x_zero", "y_zero", "z_zero"), (float(node.attrs[n]) for n in ("mx", "my"))  # type: ignore[arg-type]
    fields: dict[str, Param] = {"a_multiplier": mx, "b_multiplier": my, "offset": float(sum_offset(**zeros, mx=mx, my=my))}
    widths, shapes = [short(v) for v in (a, b, node.output)], broadcast(node)
    if shapes is None or a is None or b is None or "f32" in widths[:2] or None in widths:
        return None
    if not all(np.isfinite(v) for v in fields.values() if isinstance(v, float)):
        return None
    sizes = {"a_bytes": item_bytes(a), "b_bytes": item_bytes(b), "out_bytes": item_bytes(node.output)}
    args, n = (ctx.argument(a), ctx.argument(b), node.output), size_of(node.output)
    alike = a.shape == b.shape == node.output.shape
    return [KernelCall(ctx.kernel("add_int"), {**shapes, **sizes, **fields, **ints(node, "lo", "hi")}, args, n, n * 0.3, elementwise=alike)]


def total(node: Node, ctx: Context, multiplier: float) -> list[KernelCall] | None:
    """The sum over neighbouring axes, times a number."""
    x = node.inputs[0]
    axes: Any = node.attrs["axes"]
    assert x is not None
    shape = shape_of(x)
    over = sorted({normalize_axis(a, len(shape)) for a in axes})
    wide = [i for i in over if shape[i] != 1]
    if short(x) not in ("s8", "s16") or short(node.output) is None or wide != list(range(wide[0], wide[-1] + 1) if wide else []):
        return None
    first, last = (wide[0], wide[-1] + 1) if wide else (len(shape), len(shape))
    outer, n, inner = prod(shape[:first]), prod(shape[first:last]), prod(shape[last:])
    if not outer * inner:
        return None
    fields: dict[str, Param] = {
        "n": n, "inner": inner, "x_bytes": item_bytes(x), "out_bytes": item_bytes(node.output), "multiplier": multiplier,
        **ints(node, "x_zero", "y_zero", "lo", "hi"),
    }  # fmt: skip
    return [KernelCall(ctx.kernel("sum_int"), fields, (ctx.argument(x), node.output, Scratch(8 * inner)), outer, outer * n * inner * 0.5)]


@kernels_for("q_reduce_sum")
def reduce_sum(node: Node, ctx: Context) -> list[KernelCall] | None:
    m: Any = node.attrs["multiplier"]
    return total(node, ctx, float(m)) if np.isfinite(float(m)) else None
