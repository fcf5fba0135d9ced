"""Softmax, norms, attention and products of activations, in floats."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lowbit.ir.graph import Node, Value
from lowbit.plan.kernels.call import Context, Data, KernelCall, Scratch, ints, kernels_for
from lowbit.plan.kernels.elementwise import size_of
from lowbit.plan.kernels.float_math import NO_CLAMP
from lowbit.plan.kernels.float_products import is_float, linear_call, tile_of
from lowbit.plan.kernels.movement import dense, shape_of
from lowbit.plan.plan import Param
from lowbit.types import Array, normalize_axis

QUERIES = 96  # rows of scores that are held at once


def along_axis(node: Node) -> tuple[Value, list[int], int] | None:
    """The input of floats, its shape, and the axis that the node names."""
    x = node.inputs[0]
    if x is None or not is_float(x):
        return None
    shape = shape_of(x)
    return x, shape, normalize_axis(node.attrs["axis"], len(shape))  # type: ignore[arg-type]


@kernels_for("softmax", "log_softmax")
def softmax(node: Node, ctx: Context) -> list[KernelCall] | None:
    if (given := along_axis(node)) is None:
        return None
    x, shape, axis = given
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    fields: dict[str, Param] = {"outer": outer, "n": shape[axis], "inner": inner, "logarithm": int(node.op == "log_softmax")}
    return [KernelCall(ctx.kernel("softmax_f32"), fields, (ctx.argument(x), node.output), outer, size_of(x) * 0.6, in_place=(0,))]


def spread(ctx: Context, value: Value | None, shape: list[int], otherwise: float) -> Data | None:
    """A constant repeated to a shape, or a number where there is none; None for a value that is no constant."""
    data = np.float32(otherwise) if value is None else ctx.constant(value)
    if data is None:
        return None
    key = value.name if value is not None else ""
    how = (key, f"spread {shape} {otherwise}")
    if how not in ctx.packed:
        ctx.packed[how] = np.ascontiguousarray(np.broadcast_to(data, shape), np.float32)
    return Data(ctx.packed[how])


@kernels_for("layer_norm", "rms_norm")
def layer_norm(node: Node, ctx: Context) -> list[KernelCall] | None:
    if (given := along_axis(node)) is None:
        return None
    x, shape, axis = given
    rows, n = prod(shape[:axis]), prod(shape[axis:])
    scale, bias = spread(ctx, node.input(1), shape[axis:], 1.0), spread(ctx, node.input(2), shape[axis:], 0.0)
    if scale is None or bias is None or not n:
        return None
    eps: Any = node.attrs["eps"]
    fields: dict[str, Param] = {"rows": rows, "n": n, "centered": int(node.op == "layer_norm"), "eps": float(eps)}
    args = (ctx.argument(x), scale, bias, node.output)
    return [KernelCall(ctx.kernel("layer_norm_f32"), fields, args, rows, rows * n * 0.25, in_place=(0,))]


@kernels_for("group_norm", "instance_norm")
def group_norm(node: Node, ctx: Context) -> list[KernelCall] | None:
    x = node.inputs[0]
    if x is None or not is_float(x):
        return None
    batch, channels, *rest = shape_of(x)
    groups = channels if node.op == "instance_norm" else ints(node, "groups")["groups"]
    spatial = prod(rest)
    scale, bias = spread(ctx, node.input(1), [channels], 1.0), spread(ctx, node.input(2), [channels], 0.0)
    if scale is None or bias is None or not channels * spatial:
        return None
    eps: Any = node.attrs["eps"]
    fields: dict[str, Param] = {
        "rows": batch * groups, "groups": groups, "channels": channels // groups, "spatial": spatial, "eps": float(eps),
    }  # fmt: skip
    args = (ctx.argument(x), scale, bias, node.output)
    return [KernelCall(ctx.kernel("group_norm_f32"), fields, args, batch * groups, size_of(x) * 0.25, in_place=(0,))]


@kernels_for("batch_norm")
def batch_norm(node: Node, ctx: Context) -> list[KernelCall] | None:
    """With constant statistics: x times a number of its channel, plus another."""
    x, given = node.inputs[0], [ctx.constant(v) for v in node.inputs[1:]]
    if x is None or not is_float(x) or any(g is None for g in given):
        return None
    scale, bias, mean, var = (np.asarray(g, np.float64) for g in given)
    eps: Any = node.attrs["eps"]
    batch, channels, *rest = shape_of(x)
    factor = scale / np.sqrt(var + float(eps))
    shift = bias - mean * factor
    inner = prod(rest)
    n = size_of(x)
    fields: dict[str, Param] = {"shape": (1, batch, channels, inner), "a_stride": (0, channels * inner, inner, 1), "b_stride": (0, 0, 1, 0)}
    times = (ctx.argument(x), Data(factor.astype(np.float32)), node.output)
    plus = (node.output, Data(shift.astype(np.float32)), node.output)
    return [KernelCall(ctx.kernel(k), {**fields, **NO_CLAMP}, a, n, n * 0.2) for k, a in (("mul_f32", times), ("add_f32", plus))]


def joint(shape: list[int], strides: list[list[int]], most: int) -> tuple[list[int], list[list[int]]] | None:
    """Axes joined where every operand walks them as one, filled up with ones in front; None if more than `most` are left."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for i, n in enumerate(shape):
        if n == 1:
            continue
        now = [s[i] for s in strides]
        if sizes and all(s[-1] == w * n for s, w in zip(steps, now, strict=True)):
            sizes[-1] *= n
            for s, w in zip(steps, now, strict=True):
                s[-1] = w
        else:
            sizes.append(n)
            for s, w in zip(steps, now, strict=True):
                s.append(w)
    if len(sizes) > most:
        return None
    fill = most - len(sizes)
    return [1] * fill + sizes, [[0] * fill + s for s in steps]


def lead_strides(value: Value, lead: list[int], tail: int) -> list[int]:
    """Strides along leading axes that the value is repeated to; its own last `tail` axes are left out."""
    shape = shape_of(value)
    steps = dense(shape)
    own = len(shape) - tail
    found = [0 if n == 1 else s for n, s in zip(shape[:own], steps[:own], strict=True)]
    return [0] * (len(lead) - own) + found


@kernels_for("attention")
def attention(node: Node, ctx: Context) -> list[KernelCall] | None:
    q, k, v, mask = node.inputs[0], node.inputs[1], node.inputs[2], node.input(3)
    if (
        q is None
        or k is None
        or v is None
        or not is_float(q, k, v)
        or (mask is not None and mask.type.dtype.name not in ("float32", "bool"))
    ):
        return None
    *lead, rows, width = shape_of(node.output)
    keys, depth = shape_of(k)[-2:]
    strides = [lead_strides(x, lead, 2) for x in (q, k, v)] + [lead_strides(node.output, lead, 2)]
    own = [0, 0, 0, 0]
    if mask is not None:
        full = [1] * max(0, 2 - mask.type.rank) + shape_of(mask)
        steps = dense(full)
        own = [0, 0, *(0 if n == 1 else s for n, s in zip(full[-2:], steps[-2:], strict=True))]
        strides.append([0] * (len(lead) - len(full) + 2) + [0 if n == 1 else s for n, s in zip(full[:-2], steps[:-2], strict=True)])
    found = joint(lead, strides, 2)
    if found is None:
        return None
    (outer, inner), walks = found
    kernel, threads = ctx.kernel("attention_f32"), ctx.target.threads
    tile = tile_of(kernel.isa)
    block = min(max(rows, 1), QUERIES)
    if threads > 1 and outer * inner < 2 * threads:
        block = max(tile.rows, min(block, -(-rows // (2 * threads))))
    scale: Any = node.attrs["scale"]
    fields: dict[str, Param] = {
        "outer": outer, "inner": inner, "rows": rows, "keys": keys, "depth": depth, "width": width, "block": block,
        "causal": int(bool(node.attrs["causal"])), "mask_kind": 0 if mask is None else 1 if is_float(mask) else 2,
        "q_stride": (*walks[0], depth), "k_stride": (*walks[1], depth), "v_stride": (*walks[2], width), "out_stride": (*walks[3], width),
        "mask_stride": (*(walks[4] if mask is not None else (0, 0)), *own[2:]), "scale": float(scale),
    }  # fmt: skip
    masked = ctx.argument(mask) if mask is not None else ctx.argument(q)
    scratch = Scratch(4 * block * (keys + 16) + 4 * tile.columns * (depth + keys))
    items = outer * inner * -(-rows // block)
    cost = outer * inner * rows * keys * ((depth + width) / tile.macs_per_ns + 0.6)
    return [KernelCall(kernel, fields, (*(ctx.argument(x) for x in (q, k, v)), masked, node.output, scratch), items, cost)]


@kernels_for("matmul")
def matmul(node: Node, ctx: Context) -> list[KernelCall] | None:
    a, b = node.inputs
    if a is None or b is None or not is_float(a, b):
        return None
    weights: Array | None = ctx.constant(b)
    rows = prod(shape_of(a)[:-1])
    if weights is not None and weights.ndim == 2 and a.type.rank >= 1:
        k, n = weights.shape
        return [linear_call(node, ctx, a, rows, k, n, weights, turned=True)]
    sa, sb = shape_of(a), shape_of(b)
    m, k = (1, sa[0]) if len(sa) == 1 else (sa[-2], sa[-1])
    n = 1 if len(sb) == 1 else sb[-1]
    lead = shape_of(node.output)[: node.output.type.rank - (len(sa) > 1) - (len(sb) > 1)]
    found = joint(lead, [lead_strides(a, lead, min(2, len(sa))), lead_strides(b, lead, min(2, len(sb)))], 3)
    if found is None:
        return None
    shape, (by_a, by_b) = found
    block = max(1, min(m, QUERIES))
    fields: dict[str, Param] = {
        "shape": tuple(shape), "a_batch": tuple(by_a), "b_batch": tuple(by_b), "m": m, "k": k, "n": n,
        "a_row": k, "b_row": n, "b_column": 1, "block": block,
    }  # fmt: skip
    items = prod(shape) * -(-m // block)
    kernel = ctx.kernel("matmul_f32")
    tile = tile_of(kernel.isa)
    args = (ctx.argument(a), ctx.argument(b), node.output, Scratch(4 * tile.columns * k))
    return [KernelCall(kernel, fields, args, items, prod(shape) * m * n * k / tile.macs_per_ns)]
