"""Indices and masks: cast, comparisons, logic, and the little arithmetic that integers in float graphs need."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import Context, Data, KernelCall, kernels_for
from lowbit.plan.kernels.elementwise import broadcast, size_of
from lowbit.plan.kernels.float_norms import joint, lead_strides
from lowbit.plan.kernels.movement import AXES, calls, copy_call, dense, item_bytes, shape_of
from lowbit.plan.plan import Param

KINDS = {"float32": 0, "int64": 1, "int32": 2, "int16": 3, "int8": 4, "uint8": 5, "bool": 6}
SHORT = {"float32": "f32", "int64": "s64", "int32": "s32"}
COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
ARITHMETIC = ("add", "sub", "mul", "maximum", "minimum")
LOGIC = ("logical_and", "logical_or", "logical_xor")


@kernels_for("cast")
def cast(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    if x is None or x.type.dtype.name not in KINDS or node.output.type.dtype.name not in KINDS:
        return None
    n = size_of(x)
    fields: dict[str, Param] = {"from": KINDS[x.type.dtype.name], "to": KINDS[node.output.type.dtype.name]}
    return [KernelCall(ctx.kernel("cast"), fields, (ctx.argument(x), node.output), n, n * 1.0)]


def two(node: Node, ctx: Context, contract: str, kind: int, in_place: bool) -> list[KernelCall] | None:
    a, b = node.inputs
    shapes = broadcast(node)
    if a is None or b is None or shapes is None:
        return None
    n = size_of(node.output)
    same = tuple(i for i, v in enumerate((a, b)) if v.shape == node.output.shape) if in_place else ()
    args = (ctx.argument(a), ctx.argument(b), node.output)
    return [KernelCall(ctx.kernel(contract), {**shapes, "kind": kind}, args, n, n * 1.0, in_place=same)]


def type_of(node: Node) -> str | None:
    x = node.inputs[0]
    return SHORT.get(x.type.dtype.name) if x is not None else None


@kernels_for(*COMPARE)
def compare(node: Node, ctx: Context) -> list[KernelCall] | None:
    short = type_of(node)
    return two(node, ctx, f"compare_{short}", COMPARE.index(node.op), False) if short is not None else None


@kernels_for(*ARITHMETIC)
def arithmetic(node: Node, ctx: Context) -> list[KernelCall] | None:
    short = type_of(node)
    return two(node, ctx, f"arithmetic_{short}", ARITHMETIC.index(node.op), True) if short in ("s64", "s32") else None


@kernels_for(*LOGIC)
def logic(node: Node, ctx: Context) -> list[KernelCall] | None:
    return two(node, ctx, "logic_b8", LOGIC.index(node.op), True)


@kernels_for("logical_not")
def negation(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    assert x is not None
    n = size_of(x)
    return [KernelCall(ctx.kernel("not_b8"), {"unused": 0}, (ctx.argument(x), node.output), n, n * 0.1, in_place=(0,))]


@kernels_for("where")
def where(node: Node, ctx: Context) -> list[KernelCall] | None:
    mask, a, b = node.inputs
    if mask is None or a is None or b is None or item_bytes(a) not in (4, 8):
        return None
    out = shape_of(node.output)
    found = joint(out, [lead_strides(v, out, 0) for v in (mask, a, b)], 4)
    if found is None:
        return None
    shape, walks = found
    names = ("mask_stride", "a_stride", "b_stride")
    fields: dict[str, Param] = {"shape": tuple(shape), **{k: tuple(w) for k, w in zip(names, walks, strict=True)}}
    n = size_of(node.output)
    args = (*(ctx.argument(v) for v in (mask, a, b)), node.output)
    return [KernelCall(ctx.kernel(f"where_b{8 * item_bytes(a)}"), fields, args, n, n * 2.0)]


def bits(value: Any, dtype: np.dtype[Any]) -> int:
    """A number of a type as an unsigned integer of its width."""
    return int(np.asarray(value).astype(dtype).reshape(1).view(f"u{dtype.itemsize}")[0])


def filled(ctx: Context, out: Value, value: Any) -> KernelCall | None:
    size = item_bytes(out)
    n = size_of(out)
    if size == 2:  # one element, copied everywhere
        one = Data(np.full(1, value).astype(out.type.dtype.numpy))
        fields: dict[str, Param] = {
            "shape": (1,) * (AXES - 1) + (n,), "x_stride": (0,) * AXES, "out_stride": (1,) * AXES, "x_offset": 0, "out_offset": 0,
        }  # fmt: skip
        return KernelCall(ctx.kernel("copy_b16"), fields, (one, out), 1, n * 0.1)
    if size not in (1, 4, 8):
        return None
    return KernelCall(ctx.kernel(f"fill_b{8 * size}"), {"value": bits(value, out.type.dtype.numpy)}, (out,), n, n * 0.1)


@kernels_for("fill")
def fill(node: Node, ctx: Context) -> list[KernelCall] | None:
    return calls(filled(ctx, node.output, node.attrs["value"]))


def constant_pad(node: Node, ctx: Context) -> list[KernelCall] | None:
    """Padding of a constant value: a fill, and a copy into its middle."""
    x = node.inputs[0]
    pads: Any = node.attrs["pads"]
    if x is None or any(p < 0 for p in pads):
        return None
    out, shape = shape_of(node.output), shape_of(x)
    steps = dense(out)
    offset = sum(p * s for p, s in zip(pads, steps, strict=False))
    return calls(filled(ctx, node.output, node.attrs["value"]), copy_call(ctx, x, node.output, shape, dense(shape), steps, 0, offset))


@kernels_for("range", "eye")
def made_now(node: Node, ctx: Context) -> list[KernelCall] | None:
    """What depends on nothing but sizes is a constant by now, and is copied."""
    data = np.ascontiguousarray(node.definition.run((), node.attrs)[0])
    shape = [max(1, data.size)]
    made = copy_call(ctx, node.output, node.output, shape, [1], [1], 0, 0)
    return (
        None if made is None or not data.size else [KernelCall(made.kernel, made.params, (Data(data), node.output), made.items, made.cost)]
    )
