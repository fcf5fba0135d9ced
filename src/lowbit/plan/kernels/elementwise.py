"""Elementwise kernels: the boundary between reals and integers, requantize, add, mul, tables."""

from __future__ import annotations

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.ops.q_elementwise import sum_offset
from lowbit.plan.kernels.call import SHORT, Context, Data, KernelCall, ints, is_int8, kernels_for, short
from lowbit.plan.plan import Param

RANK = 4  # axes that binary kernels know


def size_of(value: Value) -> int:
    return int(value.type.size)


def per_tensor(node: Node, ctx: Context) -> tuple[float, int] | None:
    """Constant scale and zero point, one for all; None where there is no such thing."""
    scale, zero = ctx.constant(node.inputs[1]), ctx.constant(node.input(2))
    if scale is None or scale.size != 1 or scale.dtype != np.float32 or node.attrs["block_size"]:
        return None
    if node.input(2) is not None and zero is None:
        return None
    s = float(scale.reshape(()))
    return (s, 0 if zero is None else int(zero.reshape(()))) if np.isfinite(s) and s > 0 else None


@kernels_for("quantize_linear")
def quantize(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, params = node.inputs[0], per_tensor(node, ctx)
    if x is None or params is None or node.attrs["to"] not in ("int8", "int16") or x.type.dtype.name != "float32":
        return None
    n, d = size_of(x), node.output.type.dtype
    assert d.min is not None and d.max is not None
    fields: dict[str, Param] = {"scale": params[0], "zero_point": params[1], "lo": d.min, "hi": d.max}
    return [
        KernelCall(ctx.kernel(f"quantize_{short(x, node.output)}"), fields, (ctx.argument(x), node.output), n, n * 0.1, elementwise=True)
    ]


@kernels_for("dequantize_linear")
def dequantize(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, params = node.inputs[0], per_tensor(node, ctx)
    if x is None or params is None or node.attrs["to"] != "float32" or short(x) not in ("s8", "s16"):
        return None
    n = size_of(x)
    fields: dict[str, Param] = {"scale": params[0], "zero_point": params[1]}
    return [
        KernelCall(ctx.kernel(f"dequantize_{short(x, node.output)}"), fields, (ctx.argument(x), node.output), n, n * 0.1, elementwise=True)
    ]


@kernels_for("requantize")
def requantize(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    if x is not None and "uint8" in (x.type.dtype.name, node.output.type.dtype.name):
        return unsigned_bytes(node, ctx, x)
    contract = short(x, node.output)
    if x is None or contract is None or "f32" in contract or not np.isfinite(float(node.attrs["multiplier"])):  # type: ignore[arg-type]
        return None
    n = size_of(x)
    fields: dict[str, Param] = {"multiplier": float(node.attrs["multiplier"]), **ints(node, "x_zero", "y_zero", "lo", "hi")}  # type: ignore[arg-type]
    same = (0,) if "_" not in contract else ()
    return [
        KernelCall(
            ctx.kernel(f"requantize_{contract}"), fields, (ctx.argument(x), node.output), n, n * 0.1, in_place=same, elementwise=True
        )
    ]


def unsigned_bytes(node: Node, ctx: Context, x: Value) -> list[KernelCall] | None:
    """A function of bytes of which some are unsigned: the table kernels, whose index is the byte with its highest bit flipped."""
    if x.type.dtype.name not in ("int8", "uint8") or node.output.type.dtype.name not in ("int8", "uint8", "float32"):
        return None
    codes = np.arange(256, dtype=np.uint8)
    bytes_ = codes ^ 128  # what the kernel finds at index 0, 1, …
    table = node.definition.run([bytes_.view(x.type.dtype.numpy)], node.attrs)[0]
    n, real = size_of(x), node.output.type.dtype.is_float
    data = Data(table if real else table.view(np.int8))
    kernel = ctx.kernel("table_s8_f32" if real else "table_s8")
    return [
        KernelCall(kernel, {"unused": 0}, (ctx.argument(x), data, node.output), n, n * 0.2, in_place=() if real else (0,), elementwise=True)
    ]


def broadcast(node: Node) -> dict[str, Param] | None:
    """Shape and strides of a binary operation in four axes, neighbours that behave alike taken together; None if four are too few."""
    a, b = node.inputs[0], node.inputs[1]
    assert a is not None and b is not None
    out = [int(d) for d in node.output.shape]
    rows: list[list[int]] = []  # size, stride of a, stride of b

    def strides(value: Value) -> list[int]:
        shape = [1] * (len(out) - value.type.rank) + [int(d) for d in value.shape]
        steps, at = [0] * len(out), 1
        for i in reversed(range(len(out))):
            steps[i] = 0 if shape[i] == 1 else at
            at *= shape[i]
        return steps

    for size, sa, sb in zip(out, strides(a), strides(b), strict=True):
        if size == 1:
            continue
        if rows and rows[-1][1] == sa * size and rows[-1][2] == sb * size:
            rows[-1] = [rows[-1][0] * size, sa, sb]
        else:
            rows.append([size, sa, sb])
    if len(rows) > RANK or (rows and (rows[-1][1] > 1 or rows[-1][2] > 1)):
        return None
    full = [[1, 0, 0]] * (RANK - len(rows)) + rows
    return {"shape": tuple(r[0] for r in full), "a_stride": tuple(r[1] for r in full), "b_stride": tuple(r[2] for r in full)}


def binary(node: Node, ctx: Context, contract: str, fields: dict[str, Param]) -> list[KernelCall] | None:
    shapes = broadcast(node)
    a, b = node.inputs
    assert a is not None and b is not None
    contract = f"{contract}_{short(a, b, node.output)}"
    if (
        shapes is None
        or contract not in ("add_s8", "add_s16", "mul_s8", "max_s8", "min_s8")
        or not all(np.isfinite(v) for v in fields.values() if isinstance(v, float))
    ):
        return None
    n = size_of(node.output)
    same = tuple(i for i, v in enumerate((a, b)) if v.shape == node.output.shape)
    args = (ctx.argument(a), ctx.argument(b), node.output)
    return [KernelCall(ctx.kernel(contract), {**shapes, **fields}, args, n, n * 0.2, in_place=same, elementwise=len(same) == 2)]


@kernels_for("q_add")
def add(node: Node, ctx: Context) -> list[KernelCall] | None:
    zeros, (mx, my) = ints(node, "x_zero", "y_zero", "z_zero"), (float(node.attrs[n]) for n in ("mx", "my"))  # type: ignore[arg-type]
    offset = float(sum_offset(**zeros, mx=mx, my=my))
    return binary(node, ctx, "add", {"a_multiplier": mx, "b_multiplier": my, "offset": offset, **ints(node, "lo", "hi")})


@kernels_for("maximum", "minimum", first=True)
def extremum(node: Node, ctx: Context) -> list[KernelCall] | None:
    """The larger or the smaller of two int8 tensors; where one of them is a number, a table is faster (in_other_ops.py)."""
    a, b = node.inputs
    if not is_int8(a, b, node.output) or any(v is not None and ctx.constant(v) is not None and v.type.size == 1 for v in (a, b)):
        return None
    return binary(node, ctx, {"maximum": "max", "minimum": "min"}[node.op], {})


@kernels_for("q_table")
def table(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, data = node.inputs[0], ctx.constant(node.inputs[1])
    if x is None or data is None:
        return None
    n = size_of(x)
    if short(x) == "s16" and short(node.output) in ("s8", "s16") and data.size == 1 << 16:
        fields: dict[str, Param] = {"out_bytes": data.itemsize}
        return [KernelCall(ctx.kernel("table_s16"), fields, (ctx.argument(x), Data(data), node.output), n, n * 0.5, elementwise=True)]
    if not is_int8(x) or short(node.output) not in SHORT.values() or data.size != 256:
        return None
    args = (ctx.argument(x), Data(data), node.output)
    if short(node.output) != "s8":
        return [KernelCall(ctx.kernel(f"table_{short(x, node.output)}"), {"unused": 0}, args, n, n * 0.5, elementwise=True)]
    return [KernelCall(ctx.kernel("table_s8"), {"unused": 0}, args, n, n * 0.2, in_place=(0,), elementwise=True)]


@kernels_for("channel_table")
def channel_table(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, data = node.inputs[0], ctx.constant(node.inputs[1])
    if x is None or data is None or data.itemsize > 4:
        return None
    axis = int(node.attrs["axis"]) % x.type.rank  # type: ignore[arg-type]
    inner, n = int(np.prod([int(d) for d in x.shape[axis + 1 :]], dtype=np.int64)), size_of(x)
    fields: dict[str, Param] = {"channels": len(data), "inner": inner if len(data) > 1 else max(1, n), "out_bytes": data.itemsize}
    return [KernelCall(ctx.kernel("channel_table"), fields, (ctx.argument(x), Data(data), node.output), n, n * 0.5)]


@kernels_for("cast")
def cast(node: Node, ctx: Context) -> list[KernelCall] | None:
    """Integers and bools to float32; other casts have no kernel."""
    x = node.inputs[0]
    if x is not None and x.type.dtype.name == "uint8" and node.attrs["to"] == "float32":
        return unsigned_bytes(node, ctx, x)
    if x is None or node.attrs["to"] != "float32" or x.type.dtype.name not in ("bool", "int8", "int16", "int32", "int64"):
        return None
    n = size_of(x)
    return [KernelCall(ctx.kernel("cast_int_f32"), {"x_bytes": x.type.dtype.numpy.itemsize}, (ctx.argument(x), node.output), n, n * 0.5)]
