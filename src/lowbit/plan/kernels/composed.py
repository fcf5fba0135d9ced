"""Ops that are made of the kernels of others: transposed convolution, nearest resize, padding that repeats what is there."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from lowbit.ir.build import Builder
from lowbit.ir.graph import Node, Value
from lowbit.ops.resize import coordinates, nearest
from lowbit.ops.slices import pad as padded
from lowbit.plan.kernels.call import KERNELS, Context, KernelCall, kernels_for
from lowbit.plan.kernels.index import constant_pad, filled
from lowbit.plan.kernels.movement import calls, copy_call, dense, shape_of
from lowbit.types import Array, TensorType


def op_calls(
    ctx: Context, op: str, x: Value, consts: dict[str, Array | None], out: Value, like: Value | None = None, **attrs: Any
) -> list[KernelCall] | None:
    """The calls of an op on a value and constants, into `out`. Names of constants are those under which packed weights are kept."""
    b = Builder()
    given = b.input(x.name, x.type)
    rest = [None if c is None else b.constant(c, name=n, dtype=like.type.dtype if like is not None and i == 0 else None)
            for i, (n, c) in enumerate(consts.items())]  # fmt: skip
    made = b.add(op, given, *rest, out=out.name, **attrs)
    part = b.finish({"y": made})
    assert made.name == out.name and int(made.type.size) == int(out.type.size)
    return KERNELS[op](part.nodes[0], Context(part, ctx.target, ctx.packed))


def between(node: Node, what: str, shape: Sequence[int], like: Value) -> Value:
    """Memory between the calls of a node."""
    return Value(f"{node.output.name}:{what}", TensorType(tuple(shape), like.type.dtype))


# -- elements picked along axes ---------------------------------------------------------------------------------------------------


def picked(node: Node, ctx: Context, x: Value, indices: Sequence[Array]) -> list[KernelCall] | None:
    """x[i0][:, i1]…: one copy where every axis repeats each element some times, else a gather for each axis that changes."""
    shape = shape_of(x)
    times = [len(i) // n if n else 1 for i, n in zip(indices, shape, strict=True)]
    if all(t and np.array_equal(i, np.arange(n * t) // t) for i, n, t in zip(indices, shape, times, strict=True)):
        steps = dense(shape)
        sizes = [v for pair in zip(shape, times, strict=True) for v in pair]
        found = copy_call(ctx, x, node.output, sizes, [v for s in steps for v in (s, 0)], dense(sizes), 0, 0)
        if found is not None:
            return [found]
    changing = [a for a, (i, n) in enumerate(zip(indices, shape, strict=True)) if not np.array_equal(i, np.arange(n))]
    made: list[KernelCall] = []
    for axis in changing:
        shape = [*shape[:axis], len(indices[axis]), *shape[axis + 1 :]]
        out = node.output if axis == changing[-1] else between(node, str(axis), shape, x)
        found_here = op_calls(ctx, "gather", x, {"index": indices[axis].astype(np.int64)}, out, axis=axis)
        if found_here is None:
            return None
        made += found_here
        x = out
    return made or None


@kernels_for("resize")
def resize(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, a = node.inputs[0], dict[str, Any](node.attrs)
    if x is None or a["mode"] != "nearest" or a["coordinate_mode"] == "tf_crop_and_resize" or not int(node.output.type.size):
        return None
    indices = []
    for n, out, scale in zip(shape_of(x), a["sizes"], a["scales"], strict=True):
        at = coordinates(n, out, out / n if scale is None else scale, a["coordinate_mode"], (0.0, 1.0), nearest=True)
        same = n == out and np.array_equal(at, np.arange(n))
        indices.append(np.arange(n) if same else nearest(at, a["nearest_mode"]).clip(0, n - 1).astype(np.int64))
    return picked(node, ctx, x, indices)


@kernels_for("pad")
def pad(node: Node, ctx: Context) -> list[KernelCall] | None:
    """Padding of a constant value, or by elements that are there: edge, reflect, wrap."""
    x, a = node.inputs[0], dict[str, Any](node.attrs)
    if x is None or a["mode"] == "constant":
        return constant_pad(node, ctx)
    shape = shape_of(x)
    if not int(node.output.type.size) or 0 in shape:
        return None
    sides = zip(a["pads"], a["pads"][len(shape) :], strict=False)
    return picked(node, ctx, x, [padded(np.arange(n), pads=(b, e), mode=a["mode"]) for n, (b, e) in zip(shape, sides, strict=True)])


# -- transposed convolution -------------------------------------------------------------------------------------------------------


@kernels_for("q_conv_transpose_nhwc")
def conv_transpose(node: Node, ctx: Context) -> list[KernelCall] | None:
    x, wv, w, a = node.inputs[0], node.inputs[1], ctx.constant(node.inputs[1]), dict[str, Any](node.attrs)
    m, bias = ctx.constant(node.inputs[2]), ctx.constant(node.input(3))
    if x is None or wv is None or w is None or m is None or (node.input(3) is not None and bias is None) or not int(node.output.type.size):
        return None
    taps = w.shape[2:]
    alone = tuple(a["stride"]) == taps and not any(a["pads"]) and not any(a["output_padding"]) and set(a["dilation"]) == {1}
    ends = {k: a[k] for k in ("x_zero", "y_zero", "lo", "hi", "to", "bound")}
    if alone and a["groups"] == 1:
        return by_pixel(node, ctx, x, wv, w, m, bias, ends)
    return by_zeros(node, ctx, x, wv, w, m, bias, a, ends)


def by_pixel(
    node: Node, ctx: Context, x: Value, wv: Value, w: Array, m: Array, bias: Array | None, ends: dict[str, Any]
) -> list[KernelCall] | None:
    """Windows that do not meet: every pixel gives a block of its own, by a linear layer; blocks are put in their places."""
    in_c, out_c, *taps = w.shape
    area = prod(taps)
    batch, *sizes, _ = shape_of(x)
    rows = np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2)).reshape(area * out_c, in_c))
    pixels = Value(x.name, TensorType((batch * prod(sizes), in_c), x.type.dtype))
    blocks = between(node, "blocks", (batch * prod(sizes), area * out_c), node.output)
    many = np.tile(np.broadcast_to(m, (out_c,)), area)
    consts = {f"{wv.name}:rows": rows, "m": many, "b": None if bias is None else np.tile(bias, area)}
    found = op_calls(ctx, "q_linear", pixels, consts, blocks, like=wv, **ends)
    inner = dense([batch, *sizes, *taps, out_c])
    rank = len(sizes)
    order = [0, *(v for i in range(rank) for v in (1 + i, 1 + rank + i)), 1 + 2 * rank]
    shape = [[batch, *sizes, *taps, out_c][i] for i in order]
    moved = copy_call(ctx, blocks, node.output, shape, [inner[i] for i in order], dense(shape), 0, 0)
    return [*found, moved] if found is not None and moved is not None else None


def by_zeros(
    node: Node, ctx: Context, x: Value, wv: Value, w: Array, m: Array, bias: Array | None, a: dict[str, Any], ends: dict[str, Any]
) -> list[KernelCall] | None:
    """A convolution of the image with stride - 1 zero points between its pixels, by the weights turned round."""
    groups, rank = a["groups"], w.ndim - 2
    in_c, per_group, *taps = w.shape
    turned = np.flip(w, tuple(range(2, w.ndim))).reshape(groups, in_c // groups, per_group, *taps).swapaxes(1, 2)
    weights = np.ascontiguousarray(turned.reshape(groups * per_group, in_c // groups, *taps))
    reach = [d * (k - 1) for d, k in zip(a["dilation"], taps, strict=True)]
    pads = [r - p for r, p in zip(reach, a["pads"], strict=False)]
    pads += [r - p + o for r, p, o in zip(reach, a["pads"][rank:], a["output_padding"], strict=True)]
    if any(p < 0 for p in pads):
        return None
    batch, *sizes, _ = shape_of(x)
    wide = [batch, *((n - 1) * s + 1 for n, s in zip(sizes, a["stride"], strict=True)), in_c]
    spread, made = x, list[KernelCall]()
    if wide != shape_of(x):
        spread = between(node, "spread", wide, x)
        steps = dense(wide)
        to = [steps[0], *(t * s for t, s in zip(steps[1:-1], a["stride"], strict=True)), 1]
        put = calls(filled(ctx, spread, a["x_zero"]), copy_call(ctx, x, spread, shape_of(x), dense(shape_of(x)), to, 0, 0))
        if put is None:
            return None
        made += put
    window = {"stride": (1,) * rank, "pads": tuple(pads), "dilation": tuple(a["dilation"]), "groups": groups}
    found = op_calls(ctx, "q_conv_nhwc", spread, {f"{wv.name}:turned": weights, "m": m, "b": bias}, node.output, like=wv, **window, **ends)
    return [*made, *found] if found is not None else None
