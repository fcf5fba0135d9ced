"""Ops without a kernel of their own, said in ops that have one: choices, larger and smaller of two, least of many, PReLU, swish,
products of two activations. Exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowbit.ir.build import Builder
from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import KERNELS, Context, Data, KernelCall, is_int8, kernels_for
from lowbit.plan.kernels.elementwise import size_of
from lowbit.plan.kernels.float_products import is_float
from lowbit.types import Array, TensorType

CODES = np.arange(-128, 128)
WHOLE: dict[str, Any] = {"lo": -128, "hi": 127, "to": "int8"}
SMALL = ("int8", "int16")


def said_in(node: Node, ctx: Context, build: Callable[..., Value], *inputs: Value | Array) -> list[KernelCall] | None:
    """The calls of the ops that `build(builder, *inputs)` adds; its last one must be called node.output.name. Arrays are constants."""
    b = Builder()
    known: dict[str, Value] = {}
    given = []
    for i, v in enumerate(inputs):
        data = v if isinstance(v, np.ndarray) else ctx.constant(v)
        if data is not None:
            given.append(b.constant(data, name=f"{node.output.name}:{i}"))
        else:
            assert isinstance(v, Value)
            known[v.name] = known.get(v.name) or b.input(v.name, v.type)
            given.append(known[v.name])
    y = build(b, *given)
    part = b.finish({"y": y})
    assert y.name == node.output.name and y.type == node.output.type
    inner = Context(part, ctx.target, ctx.packed)
    made: list[KernelCall] = []
    for n in part.nodes:
        found = KERNELS[n.op](n, inner)
        if found is None:
            return None
        made += found
    return made


def table_call(ctx: Context, x: Value, entries: Array, out: Value, last: bool = True) -> KernelCall:
    """out = entries[x + 128]; `last`: no later call of the node reads x."""
    n = size_of(out)
    return KernelCall(
        ctx.kernel("table_s8"),
        {"unused": 0},
        (ctx.argument(x), Data(entries.astype(np.int8)), out),
        n,
        n * 0.2,
        in_place=(0,) if last else (),
        elementwise=last,
    )


def _bytes(ctx: Context, mask: Value, node: Node, flipped: bool) -> tuple[list[KernelCall], Value | Array]:
    """A condition as int8 of 0 and 1, or of 1 and 0: the bytes that it has."""
    data = ctx.constant(mask)
    if data is not None:
        return [], (data != flipped).astype(np.int8)
    if not flipped:
        return [], Value(mask.name, TensorType(mask.shape, "int8"))
    n = size_of(mask)
    made = Value(f"{node.output.name}:not", TensorType(mask.shape, "int8"))
    return [KernelCall(ctx.kernel("not_b8"), {"unused": 0}, (mask, made), n, n * 0.1)], made


@kernels_for("where")
def where(node: Node, ctx: Context) -> list[KernelCall] | None:
    """int8: c + (x - c)·m for a number c, else a·m + b·(1 - m). int16: as int32."""
    mask, a, b = node.inputs
    if mask is None or a is None or b is None or node.output.type.dtype.name not in SMALL:
        return None
    name = node.output.name
    if is_int8(a, b):
        for x, other, flipped in ((a, b, False), (b, a, True)):
            number = ctx.constant(other)
            if number is None or number.size != 1 or x.shape != node.output.shape or ctx.constant(x) is not None:
                continue
            c = int(number.reshape(()))
            before, m = _bytes(ctx, mask, node, flipped)

            def chosen(e: Builder, v: Value, m: Value, c: int = c) -> Value:
                return e.add("q_mul", v, m, out=name, x_zero=c, y_zero=0, z_zero=c, multiplier=1.0, **WHOLE)

            found = said_in(node, ctx, chosen, x, m)
            if found is not None:
                return [*before, *found]

    def wide(e: Builder, m: Value, a: Value, b: Value) -> Value:
        choice = e.add("where", m, *(e.add("cast", v, to="int32", out=f"{name}:{i}") for i, v in enumerate((a, b))), out=f"{name}:int32")
        return e.add("cast", choice, to=node.output.type.dtype.name, out=name)

    return said_in(node, ctx, wide, mask, a, b)


@kernels_for("maximum", "minimum")
def larger(node: Node, ctx: Context) -> list[KernelCall] | None:
    """A table where one of them is a number, else as int32."""
    if node.output.type.dtype.name not in SMALL:
        return None
    choose: Any = np.maximum if node.op == "maximum" else np.minimum
    for x, other in (node.inputs, node.inputs[::-1]):
        number = ctx.constant(other)
        if x is not None and is_int8(x) and number is not None and number.size == 1 and x.shape == node.output.shape:
            return [table_call(ctx, x, choose(CODES, int(number.reshape(()))), node.output)]
    name = node.output.name

    def wide(e: Builder, a: Value, b: Value) -> Value:
        both = e.add(node.op, *(e.add("cast", v, to="int32", out=f"{name}:{i}") for i, v in enumerate((a, b))), out=f"{name}:int32")
        return e.add("cast", both, to=node.output.type.dtype.name, out=name)

    a, b = node.inputs
    assert a is not None and b is not None
    return said_in(node, ctx, wide, a, b)


@kernels_for("reduce_min", "reduce_max")
def least(node: Node, ctx: Context) -> list[KernelCall] | None:
    """As floats, which hold these integers exactly."""
    x = node.inputs[0]
    if x is None or node.output.type.dtype.name not in SMALL or not size_of(x):
        return None
    name = node.output.name
    attrs: Any = node.attrs

    def wide(e: Builder, x: Value) -> Value:
        found = e.add(node.op, e.add("cast", x, to="float32", out=f"{name}:0"), out=f"{name}:float32", **attrs)
        return e.add("cast", found, to=node.output.type.dtype.name, out=name)

    return said_in(node, ctx, wide, x)


@kernels_for("swish")
def swish(node: Node, ctx: Context) -> list[KernelCall] | None:
    """x · sigmoid(alpha · x) of floats."""
    x, name = node.inputs[0], node.output.name
    if x is None or not is_float(x):
        return None

    def said(e: Builder, x: Value, alpha: Value) -> Value:
        gate = e.add("sigmoid", e.add("mul", x, alpha, out=f"{name}:scaled"), out=f"{name}:gate")
        return e.add("mul", x, gate, out=name)

    return said_in(node, ctx, said, x, np.array(node.attrs["alpha"], np.float32))


@kernels_for("q_prelu")
def prelu(node: Node, ctx: Context) -> list[KernelCall] | None:
    """The positive part is a table, the negative one a product with the slopes; one of them is the zero point, so their sum is exact."""
    x, slope = node.inputs
    a: Any = node.attrs
    if x is None or slope is None or not is_int8(x, slope, node.output) or x.shape != node.output.shape:
        return None
    name, d, zero = node.output.name, CODES - a["x_zero"], a["y_zero"]
    with np.errstate(over="ignore"):
        positive = np.clip(np.rint(np.maximum(d, 0).astype(np.float32) * np.float32(a["mx"]) + np.float32(zero)), -128, 127)
    above, below = (Value(f"{name}:{side}", node.output.type) for side in ("above", "below"))

    def scaled(e: Builder, below: Value, slope: Value) -> Value:
        zeros = {"x_zero": a["x_zero"], "y_zero": a["slope_zero"], "z_zero": zero}
        return e.add("q_mul", below, slope, out=f"{name}:scaled", multiplier=a["ms"], **zeros, **WHOLE)

    def both(e: Builder, below: Value, slope: Value, above: Value) -> Value:
        zeros = {"x_zero": zero, "y_zero": zero, "z_zero": zero}
        limits = {"lo": a["lo"], "hi": a["hi"], "to": a["to"]}
        return e.add("q_add", scaled(e, below, slope), above, out=name, mx=1.0, my=1.0, **zeros, **limits)

    rest = said_in(node, ctx, both, below, slope, above)
    if rest is None:
        return None
    return [table_call(ctx, x, positive, above, last=False), table_call(ctx, x, np.minimum(CODES, a["x_zero"]), below), *rest]


EXACT = 1 << 24  # whole numbers up to it, and their sums, are exact in float32


@kernels_for("q_matmul")
def product(node: Node, ctx: Context) -> list[KernelCall] | None:
    """Products of two activations, as floats that are whole numbers: exact while no sum reaches 2^24. Longer ones are summed in pieces."""
    a, b, multiplier = node.inputs
    t: Any = node.attrs
    if a is None or b is None or min(a.type.rank, b.type.rank) < 2 or ctx.constant(multiplier) is None or t["bound"] >= 1 << 31:
        return None
    if t["to"] not in ("int8", "int16", "float32") or any(v.type.dtype.name not in SMALL for v in (a, b)):
        return None
    name, depth = node.output.name, int(a.shape[-1])
    most = [max(int(v.type.dtype.max or 0) - z, z - int(v.type.dtype.min or 0)) for v, z in ((a, t["a_zero"]), (b, t["b_zero"]))]
    longest = depth if t["bound"] < EXACT else (EXACT - 1) // (most[0] * most[1])
    if not depth or not longest:
        return None
    cuts = [*range(0, depth, longest), depth]
    pieces = len(cuts) - 1

    def whole(e: Builder, v: Value, zero: int, side: str) -> Value:
        """The integers without their zero point, as floats."""
        data = e.constant_data(v)
        if data is not None:
            return e.constant((data.astype(np.int32) - zero).astype(np.float32), name=f"{name}:{side}")
        one, at = e.constant(np.ones((), np.float32)), e.constant(np.array(zero, v.type.dtype.numpy))
        return e.add("dequantize_linear", v, one, at, out=f"{name}:{side}", axis=0, block_size=0)

    def cut(e: Builder, v: Value, axis: int, i: int) -> Value:
        if pieces == 1:
            return v
        return e.add("slice", v, starts=[cuts[i]], ends=[cuts[i + 1]], axes=[axis], steps=[1], out=f"{v.name}:{i}")

    def said(e: Builder, a: Value, b: Value, m: Value) -> Value:
        x, y = whole(e, a, t["a_zero"], "a"), whole(e, b, t["b_zero"], "b")
        sums = [e.add("matmul", cut(e, x, x.type.rank - 1, i), cut(e, y, y.type.rank - 2, i), out=f"{name}:sum{i}") for i in range(pieces)]
        total = sums[0]
        if pieces > 1:
            parts = [e.add("cast", s, to="int32", out=f"{s.name}:int32") for s in sums]
            total = parts[0]
            for i, part in enumerate(parts[1:]):
                total = e.add("add", total, part, out=f"{name}:total{i}")
            total = e.add("cast", total, to="float32", out=f"{name}:total")
        if t["to"] == "float32":
            return e.add("mul", total, m, out=name)
        scaled = e.add("mul", total, m, out=f"{name}:scaled")
        limits = e.add("clip", scaled, min=float(t["lo"] - t["y_zero"]), max=float(t["hi"] - t["y_zero"]), out=f"{name}:clipped")
        one, zero = e.constant(np.ones((), np.float32)), e.constant(np.array(t["y_zero"], t["to"]))
        return e.add("quantize_linear", limits, one, zero, out=name, axis=0, block_size=0, to=t["to"])

    return said_in(node, ctx, said, a, b, np.asarray(ctx.constant(multiplier)))
