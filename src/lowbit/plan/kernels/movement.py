"""Movement: what is only another view of the same bytes, and copies with strides."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from lowbit.ir.graph import Node, Value
from lowbit.ops.slices import slice_range
from lowbit.plan.kernels.call import Context, KernelCall, kernels_for, views
from lowbit.plan.plan import Param
from lowbit.types import normalize_axis

AXES = 6
SHORT_RUN = 8
COLOURS = 3  # planes that copy_b8 of AVX2 interleaves
LONGEST_RUN = 4096  # pixels of an item then
CONTRACTS = {1: "copy_b8", 2: "copy_b16", 4: "copy_b32", 8: "copy_b64"}


def shape_of(value: Value) -> list[int]:
    return [int(d) for d in value.shape]


def item_bytes(value: Value) -> int:
    return value.type.dtype.numpy.itemsize


def dense(shape: Sequence[int]) -> list[int]:
    """Strides in elements of an array without gaps."""
    steps, at = [0] * len(shape), 1
    for i in reversed(range(len(shape))):
        steps[i] = at
        at *= shape[i]
    return steps


@views("reshape", "identity")
def same_bytes(node: Node) -> int | None:
    return 0


@views("transpose")
def still(node: Node) -> int | None:
    """A transpose that moves axes of length 1 only moves nothing."""
    x = node.inputs[0]
    assert x is not None
    perm: Any = node.attrs["perm"]
    shape = shape_of(x)
    moving = [p for p in perm if shape[p] != 1]
    return 0 if moving == sorted(moving) or 0 in shape else None


def slice_start(node: Node) -> tuple[list[int], list[int]]:
    """First index and step along each axis."""
    x = node.inputs[0]
    assert x is not None
    shape = shape_of(x)
    first, step = [0] * len(shape), [1] * len(shape)
    a: Any = node.attrs
    for axis, start, end, stride in zip(a["axes"], a["starts"], a["ends"], a["steps"], strict=True):
        i = normalize_axis(axis, len(shape))
        first[i], step[i] = slice_range(shape[i], start, end, stride)[0], stride
    return first, step


@views("slice")
def part(node: Node) -> int | None:
    """A slice whose elements are neighbours: nothing but axes of length 1 before the one that is cut."""
    x = node.inputs[0]
    assert x is not None
    shape, out = shape_of(x), shape_of(node.output)
    first, step = slice_start(node)
    cut = [i for i in range(len(shape)) if out[i] != shape[i] or first[i] or step[i] != 1]
    if 0 in out or not cut:
        return 0 if out == shape else None
    i = cut[0]
    if len(cut) > 1 or step[i] != 1 or prod(shape[:i]) != 1:
        return None
    return first[i] * dense(shape)[i] * item_bytes(x)


def copy_call(
    ctx: Context, x: Value, out: Value, shape: Sequence[int], x_stride: Sequence[int], out_stride: Sequence[int], x_offset: int, offset: int
) -> KernelCall | None:
    """A copy of `shape` elements; neighbouring axes that are dense on both sides are one."""
    contract = CONTRACTS.get(item_bytes(x))
    rows: list[list[int]] = []
    for size, a, b in zip(shape, x_stride, out_stride, strict=True):
        if size == 1:
            continue
        if rows and rows[-1][1] == a * size and rows[-1][2] == b * size:
            rows[-1] = [rows[-1][0] * size, a, b]
        else:
            rows.append([size, a, b])
    if contract is None or len(rows) > AXES:
        return None
    if not rows:
        rows = [[1, 1, 1]]
    kernel = ctx.kernel(contract)
    if kernel.isa != "ref" and contract == "copy_b8" and len(rows) == 2 and rows[1][0] == COLOURS and rows[1][2] == rows[0][1] == 1:
        pixels, apart = rows[0][0], rows[1][1]  # planes that become pixels, which that kernel does at once
        run = next(n for n in range(min(pixels, LONGEST_RUN), 0, -1) if pixels % n == 0)
        rows = [[pixels // run, run, COLOURS * run], [run, 1, COLOURS], [COLOURS, apart, 1]]
    elif len(rows) > 1 and rows[-1][0] < SHORT_RUN < rows[-2][0]:  # the long axis is the inner loop
        rows[-2:] = rows[:-3:-1]
    full = [*rows[:1], *[[1, 0, 0]] * (AXES - len(rows)), *rows[1:]] if len(rows) > 1 else [[1, 0, 0]] * (AXES - 1) + rows
    items = full[0][0]
    fields: dict[str, Param] = {
        "shape": tuple(r[0] for r in full), "x_stride": tuple(r[1] for r in full), "out_stride": tuple(r[2] for r in full),
        "x_offset": x_offset, "out_offset": offset,
    }  # fmt: skip
    return KernelCall(kernel, fields, (ctx.argument(x), out), items, prod(shape) * 0.5)


def calls(*found: KernelCall | None) -> list[KernelCall] | None:
    made = [c for c in found if c is not None]
    return made if len(made) == len(found) else None


@kernels_for("slice")
def cut(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    assert x is not None
    out, steps = shape_of(node.output), dense(shape_of(x))
    first, step = slice_start(node)
    offset = sum(f * s for f, s in zip(first, steps, strict=True)) if prod(out) else 0
    return calls(copy_call(ctx, x, node.output, out, [s * t for s, t in zip(steps, step, strict=True)], dense(out), offset, 0))


@kernels_for("split")
def split(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    assert x is not None
    steps = dense(shape_of(x))
    axis = normalize_axis(node.attrs["axis"], x.type.rank)  # type: ignore[arg-type]
    found, at = [], 0
    for o in node.outputs:
        out = shape_of(o)
        found.append(copy_call(ctx, x, o, out, steps, dense(out), at * steps[axis], 0))
        at += out[axis]
    return calls(*found)


@kernels_for("concat")
def concat(node: Node, ctx: Context) -> list[KernelCall] | None:
    steps = dense(shape_of(node.output))
    axis = normalize_axis(node.attrs["axis"], node.output.type.rank)  # type: ignore[arg-type]
    found, at = [], 0
    for x in node.inputs:
        assert x is not None
        shape = shape_of(x)
        found.append(copy_call(ctx, x, node.output, shape, dense(shape), steps, 0, at * steps[axis]))
        at += shape[axis]
    return calls(*found)


@kernels_for("expand")
def expand(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, out = node.inputs[0], shape_of(node.output)
    assert x is not None
    shape = [1] * (len(out) - x.type.rank) + shape_of(x)
    steps = [0 if s == 1 else d for s, d in zip(shape, dense(shape), strict=True)]
    return calls(copy_call(ctx, x, node.output, out, steps, dense(out), 0, 0))


@kernels_for("pad")
def pad(node: Node, ctx: Context) -> list[KernelCall] | None:
    """Padding that is added, of a constant value in bytes: a fill, and a copy into its middle."""
    x = node.inputs[0]
    assert x is not None
    pads: Any = node.attrs["pads"]
    pad_value: Any = node.attrs["value"]
    if node.attrs["mode"] != "constant" or item_bytes(x) != 1 or any(p < 0 for p in pads):
        return None
    out = shape_of(node.output)
    steps = dense(out)
    value = int(pad_value) & 255
    n = prod(out)
    filled = KernelCall(ctx.kernel("fill_b8"), {"value": value}, (node.output,), n, n * 0.02)
    offset = sum(p * s for p, s in zip(pads, steps, strict=False))
    shape = shape_of(x)
    return calls(filled, copy_call(ctx, x, node.output, shape, dense(shape), steps, 0, offset))


@kernels_for("fill")
def fill(node: Node, ctx: Context) -> list[KernelCall] | None:
    if item_bytes(node.output) != 1 or node.output.type.dtype.is_float:
        return None
    n = int(node.output.type.size)
    value: Any = node.attrs["value"]
    return [KernelCall(ctx.kernel("fill_b8"), {"value": int(value) & 255}, (node.output,), n, n * 0.02)]
